"""What a caller says at setup(), read as what a Moonpool client needs."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import moonpool
from mooncake._patience import Patience, patience_of_lmcache

_log = logging.getLogger("mooncake.store")

_DEFAULT_TENANT = "default"
_DEFAULT_TIMEOUT = 10.0
# Of a namespace that a tenant's name makes, where nobody gives a fingerprint.
_PLAIN_FINGERPRINT = "mooncake.store"
_DEFAULT_STAGING = "1GB"
_UNITS = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40,
          "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "b": 1}


_REQUIRED = ("local_hostname", "metadata_server", "global_segment_size", "local_buffer_size",
             "protocol", "rdma_devices", "master_server_addr")
_OPTIONAL = ("engine", "enable_ssd_offload", "ssd_offload_path", "tenant_id",
             "enable_client_http_server", "client_http_port")


def arguments_by_name(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ``setup`` was called with: a dictionary, of which what is not known is passed over, or
    arguments in order and by name. TypeError names those that are unknown or missing, as callers
    that try one form after the other expect.
    """
    config = args[0] if len(args) == 1 and not kwargs else kwargs.get("config")
    if isinstance(config, Mapping):
        return config
    names = _REQUIRED + _OPTIONAL
    if len(args) > len(names):
        raise TypeError(f"setup() takes at most {len(names)} arguments, got {len(args)}")
    named = dict(zip(names, args))
    twice = [name for name in kwargs if name in named]
    unknown = [name for name in kwargs if name not in names]
    named |= kwargs
    missing = [name for name in _REQUIRED if name not in named]
    for what, which in (("unknown", unknown), ("given twice", twice), ("missing", missing)):
        if which:
            raise TypeError(f"setup(): {what}: {', '.join(which)}")
    return named


def bytes_of(size: Any) -> int:
    """``64 << 20``, ``"4GB"``, ``"16 mb"``, ``"1024"`` as bytes. ValueError for anything else."""
    text = str(size).strip().lower()
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    number = float(text[:len(text) - len(unit)])
    if not 0 <= number < 1 << 63:
        raise ValueError(f"no size: {size!r}")
    return int(number * _UNITS.get(unit, 1))


@dataclass(frozen=True)
class Setup:
    """Arguments of one ``setup``.

    Attributes:
        masters: ``"host:port[,host:port]"``.
        namespace: See ``namespace_of``.
        fingerprint: Of the namespace; ``""``: any.
        timeout: Seconds that a call takes at most.
        hostname: What ``get_hostname`` answers.
        segment_bytes: What the caller would lend to the pool.
        patience: Of a caller that does not wait for the end of its calls.
        staging_bytes: Of the copies that its puts are made from.
        short_reads: Whether an object may be shorter than what it is read into.
    """

    masters: str
    namespace: str
    fingerprint: str
    timeout: float
    hostname: str
    segment_bytes: int
    patience: Patience
    staging_bytes: int
    short_reads: bool

    @staticmethod
    def of(config: Mapping[str, Any]) -> Setup:
        """From the arguments by name: those of the original's dictionary, LMCache's spelling of
        them, and ``namespace``, ``fingerprint``, ``timeout`` and the others of docs/MOONCAKE.md,
        which win over MOONPOOL_NAMESPACE and so on. What has no meaning here is passed over. What
        LMCache's connector needs is seen from its being the caller.

        ValueError says what is wrong.
        """
        masters = str(config.get("master_server_addr") or config.get("master_server_address")
                      or os.environ.get("MOONPOOL_MASTER", ""))
        if not masters:
            raise ValueError("no master is named: give Moonpool's as master_server_addr, or set "
                             "MOONPOOL_MASTER")
        if "://" in masters:
            raise ValueError(f"master_server_addr {masters!r}: name Moonpool's masters themselves, "
                             "host:port[,host:port]; they find out who leads")
        timeout = float(_option(config, "timeout") or _DEFAULT_TIMEOUT)
        if timeout <= 0:
            raise ValueError(f"timeout is not positive: {timeout}")
        fingerprint = _option(config, "fingerprint")
        namespace = namespace_of(_option(config, "namespace"),
                                 str(config.get("tenant_id") or _DEFAULT_TENANT))
        if fingerprint and namespace == _DEFAULT_TENANT:
            raise ValueError(f"a fingerprint needs a namespace of its own, and {namespace!r} takes "
                             "pages of any kind: set MOONPOOL_NAMESPACE, for instance llama-3-8b")
        said = Patience(_seconds(config, "put_patience"), _seconds(config, "get_patience"))
        lmcache = patience_of_lmcache(said)
        return Setup(
            masters=masters,
            namespace=namespace,
            fingerprint=fingerprint,
            timeout=timeout,
            hostname=str(config.get("local_hostname", "")),
            segment_bytes=bytes_of(config.get("global_segment_size", 0)),
            patience=said if lmcache is None else lmcache,
            staging_bytes=bytes_of(_option(config, "staging") or _DEFAULT_STAGING),
            short_reads=_is_on(config, "short_reads", otherwise=lmcache is not None))

    def connect(self) -> moonpool.Client:
        """A client of the pool. Raises moonpool.MoonpoolError.

        A call fails soon when no master is there: engines would rather compute than wait.
        """
        try:
            return self._connect(self.fingerprint)
        except moonpool.Miss as missing:
            # No such namespace, and no fingerprint to make it with: tenants need no preparation in
            # the original either.
            if missing.reason != "NAMESPACE_UNKNOWN" or self.fingerprint:
                raise
            return self._connect(_PLAIN_FINGERPRINT)

    def _connect(self, fingerprint: str) -> moonpool.Client:
        return moonpool.Client(
            self.masters, namespace=self.namespace, fingerprint=fingerprint, timeout=self.timeout,
            wait_for_master=False, on_warning=lambda line: _log.warning("%s", line))


def namespace_of(namespace: str, tenant: str) -> str:
    """Each tenant has a namespace of its own, below the one that is configured, if any."""
    if tenant == _DEFAULT_TENANT:
        return namespace or _DEFAULT_TENANT
    return f"{namespace}/{tenant}" if namespace else tenant


def _option(config: Mapping[str, Any], name: str) -> str:
    return str(config.get(name) or os.environ.get(f"MOONPOOL_{name.upper()}", ""))


def _seconds(config: Mapping[str, Any], name: str) -> float:
    seconds = float(_option(config, name) or math.inf)
    if not seconds > 0:
        raise ValueError(f"{name} is not positive: {seconds}")
    return seconds


def _is_on(config: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    said = config.get(name)
    text = (_option(config, name) if said is None else str(said)).lower()
    if text not in ("", "0", "1", "false", "true"):
        raise ValueError(f"{name} is neither 0 nor 1: {text!r}")
    return text in ("1", "true") if text else otherwise
