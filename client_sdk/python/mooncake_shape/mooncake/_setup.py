"""What a caller says at setup(), read as what a Moonpool client needs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import moonpool

_log = logging.getLogger("mooncake.store")

_DEFAULT_TENANT = "default"
_DEFAULT_TIMEOUT = 10.0
# Of a namespace that a tenant's name makes, where nobody gives a fingerprint.
_PLAIN_FINGERPRINT = "mooncake.store"
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
    """

    masters: str
    namespace: str
    fingerprint: str
    timeout: float
    hostname: str
    segment_bytes: int

    @staticmethod
    def of(config: Mapping[str, Any]) -> Setup:
        """From the arguments by name: those of the original's dictionary, LMCache's spelling of
        them, and ``namespace``, ``fingerprint`` and ``timeout``, which win over MOONPOOL_NAMESPACE,
        MOONPOOL_FINGERPRINT and MOONPOOL_TIMEOUT. What has no meaning here is passed over.

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
        return Setup(
            masters=masters,
            namespace=namespace_of(_option(config, "namespace"),
                                   str(config.get("tenant_id") or _DEFAULT_TENANT)),
            fingerprint=_option(config, "fingerprint"),
            timeout=timeout,
            hostname=str(config.get("local_hostname", "")),
            segment_bytes=bytes_of(config.get("global_segment_size", 0)))

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
