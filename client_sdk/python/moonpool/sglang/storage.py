"""`MoonpoolHiCacheStorage`: what SGLang's cache controller calls.

How SGLang uses it (managers/cache_controller.py, hybrid_cache/hybrid_cache_controller.py):

* One instance per rank, made at start-up or by the admin API: the constructor, then
  `register_mem_pool_host`, whose errors end the attach; `register_mem_host_pool_v2` for each pool
  of a hybrid model. Nothing else raises: in SGLang's storage threads an exception costs the
  operation, and in some versions the thread.
* `batch_exists` (the hit query of a new prompt, whose smallest answer over all ranks counts), then
  `batch_get_v1` in batches of 128 pages until the first False. Three threads, one call each.
* `batch_set_v1` in batches of 128 pages until the first False, which ends the backup of the rest
  for good: outcome.py says what is worth a False.
* Hybrid models: the same with `*_v2`, for their other pools (Mamba states, SWA windows, indexers,
  drafts). Without ``"interface_v1": 1``: `batch_get`, `batch_set` with a copy of every page.
* Detach: the threads are given 10 s to end, then `close`. So every call is bounded (options.py).

Time: hit queries return within lookup_timeout, one batch within load_timeout or store_timeout.
Memory: when a call has returned, nobody touches the host pool's pages on its behalf any more;
SGLang frees pages of a read that failed, and another request may have them a moment later.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

try:
    from sglang.srt.mem_cache.hicache_storage import (
        HiCacheStorage,
        HiCacheStorageConfig,
        HiCacheStorageExtraInfo,
        PoolName,
        PoolTransfer,
        PoolTransferResult,
    )
    from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
except ImportError as error:
    raise ImportError(
        f"moonpool.sglang needs SGLang 0.5.23 or a version like it ({error}); "
        "run it with the Python of the SGLang installation"
    ) from error

import moonpool
from moonpool.sglang import naming
from moonpool.sglang.figures import TransferFigures
from moonpool.sglang.flat import FlatPages
from moonpool.sglang.options import Options
from moonpool.sglang.paged import PagedPools
from moonpool.sglang.prefix import restorable_ends
from moonpool.sglang.recent import RecentKeys
from moonpool.sglang.server import server_facts
from moonpool.sglang.shelves import Shelves
from moonpool.sglang.traffic import Traffic
from moonpool.sglang.transfer import PoolIo

logger = logging.getLogger(__name__)


def _never_raises(otherwise: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Last resort around a method that SGLang's threads call: `otherwise(*args)` on any error."""

    def wrap(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def guarded(self: MoonpoolHiCacheStorage, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                self._complain(method.__name__, error)
                return otherwise(*args, **kwargs)

        return guarded

    return wrap


def _all_false(keys: Sequence[str], *_: Any, **__: Any) -> list[bool]:
    return [False] * len(keys)


def _all_none(keys: Sequence[str], *_: Any, **__: Any) -> list[None]:
    return [None] * len(keys)


def _pages_false(transfer: PoolTransfer, *_: Any, **__: Any) -> list[bool]:
    return [False] * len(transfer.keys or ())


def _each_false(transfers: Sequence[PoolTransfer], *_: Any, **__: Any) -> dict[str, list[bool]]:
    return {transfer.name: _pages_false(transfer) for transfer in transfers}


class MoonpoolHiCacheStorage(HiCacheStorage):
    """HiCache storage on a Moonpool pool. See the module's text for threads, time and errors."""

    _clock = staticmethod(time.monotonic)

    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: dict | None = None) -> None:
        """Reads the settings, SGLang's too (ValueError); the pool is reached once the host pool is
        known."""
        self._config = storage_config
        self._options = Options.parse(storage_config.extra_config)
        self._zero_copy = bool((storage_config.extra_config or {}).get("interface_v1", 0))
        self._server = server_facts(self._options)
        self._io: PoolIo | None = None  # made at attach, with the three that go through it
        self._traffic: Traffic | None = None
        self._paged: PagedPools | None = None
        self._flat: FlatPages | None = None
        self._shelves = Shelves(
            storage_config,
            self._server,
            moonpool.Memory,
            lambda pool: isinstance(pool, MHATokenToKVPoolHost),
        )
        self._kv_is_logical = False
        self._figures = TransferFigures(storage_config.enable_storage_metrics, self._clock)
        self._recent = RecentKeys()
        self.registered_pools: dict[str, Any] = {}
        self.namespace = ""
        self.fingerprint = ""

    # Attach and detach.

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Learns where the KV pages are, and opens the pool's namespace for their layout.

        Raises ValueError (a host pool or a setting that cannot work), moonpool.FailedPrecondition
        (the namespace has another layout), moonpool.Unavailable and the like (no master answers
        within attach_timeout, unless pool_away_at_attach is "miss").
        """
        super().register_mem_pool_host(mem_pool_host)
        if getattr(self._config, "dcp_size", 1) > 1:
            raise ValueError("moonpool: decode context parallelism (DCP) is not supported")
        self._kv_is_logical = getattr(mem_pool_host, "kv_buffer", None) is None
        if not self._kv_is_logical and self._zero_copy:
            self._shelves.add(mem_pool_host, PoolName.KV)
        facts = naming.engine_facts(self._config, mem_pool_host, self._options, self._server)
        self.namespace, self.fingerprint = naming.namespace_of(
            facts, self._options.namespace, moonpool.fingerprint
        )
        if not self._zero_copy:
            logger.warning('moonpool: the extra config has no "interface_v1": 1: every page is '
                           "copied twice on its way, and pages of engines that set it are not "
                           "found")
        self._open()

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: str) -> None:
        """One more pool of a hybrid model.

        Raises nothing: SGLang would be left half attached. A pool whose pages cannot be reached is
        logged as an error, and misses for ever.
        """
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        if host_pool_name == PoolName.KV and (self._kv_is_logical or PoolName.KV in self._shelves):
            return
        try:
            self._shelves.add(host_pool, host_pool_name)
        except ValueError as error:
            logger.error("moonpool: pages of %r cannot be stored: %s", host_pool_name, error)

    def _open(self) -> None:
        options = self._options
        self.close()
        self._io = io = PoolIo(self._connect, options, self._clock)
        self._traffic = Traffic(io, self._figures, self._recent)
        self._paged = PagedPools(self._shelves, self._traffic, self._kv_is_logical)
        self._flat = FlatPages(
            self._shelves, self._traffic, self.mem_pool_host, self._config.is_mla_model
        )
        masters = ",".join(options.masters)
        try:
            self._io.attach(options.attach_timeout)
        except moonpool.MoonpoolError as error:
            refused = error.code in ("FAILED_PRECONDITION", "INVALID_ARGUMENT")
            if options.pool_away_at_attach == "fail" or refused:
                raise
            logger.error("moonpool: the pool at %s cannot be used (%s); until it can, all misses. "
                         "Its namespace will be %r", masters, error, self.namespace)
            return
        logger.info("moonpool: namespace %r at %s, layout %s", self.namespace, masters,
                    self.fingerprint)

    def _connect(self, timeout: float) -> Any:
        """A client for this engine's namespace; raises what moonpool.Client raises."""
        options = self._options
        return moonpool.Client(
            list(options.masters),
            namespace=self.namespace,
            fingerprint=self.fingerprint,
            path=options.path,
            verify=options.verify,
            timeout=timeout,
            tcp_streams=options.tcp_streams,
            host_id=options.host_id,
            on_warning=lambda line: logger.warning("moonpool: %s", line),
        )

    def close(self) -> None:
        """Ends the use of the pool, and of the host pools' memory, also by calls that run: they are
        cancelled, and have ended when this returns. Later calls miss. Idempotent."""
        if self._io is not None:
            self._io.close()

    # Hit queries.

    @_never_raises(lambda *_, **__: 0)
    def batch_exists(
        self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> int:
        """Leading pages that are there; they stay there for `hold` seconds."""
        if self._kv_is_logical:
            return 0  # what there is, only batch_exists_v2 can know
        return self._leading_kv(keys, self._io.query_deadline())

    def _leading_kv(self, keys: Sequence[str], deadline: float) -> int:
        if self._zero_copy:
            names = self._shelves[PoolName.KV].names
        else:
            names = self._shelves.flat_names(PoolName.KV.value, self.mem_pool_host)
        return self._traffic.match(names, keys, deadline)

    @_never_raises(lambda *_, **__: PoolTransferResult.empty())
    def batch_exists_v2(
        self,
        keys: list[str],
        pool_transfers: list[PoolTransfer] | None = None,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> PoolTransferResult:
        """As batch_exists, cut to where the other pools of a hybrid model have what they need."""
        transfers = pool_transfers or []
        deadline = self._io.query_deadline()
        if self._kv_is_logical:
            kv_pages = len(keys) if transfers else 0
        else:
            kv_pages = self._leading_kv(keys, deadline)
        present = self._paged.present(keys[:kv_pages], transfers, deadline)
        ends, longest = restorable_ends(transfers, present, kv_pages)
        hits = {PoolName.KV: kv_pages} if kv_pages else {}
        return PoolTransferResult(ends[-1] if ends else 0, hits | longest, ends)

    @_never_raises(lambda *_, **__: False)
    def exists(self, key: str) -> bool:
        """Is this one page there, whichever of the two interfaces stored it?"""
        return self._flat.exists(key)

    # Pages, without a copy (paged.py).

    @_never_raises(_all_false)
    def batch_get_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Reads pages into the host pool; True for those that are whole."""
        return self._paged.get(PoolName.KV, keys, host_indices, self._io.read_deadline())

    @_never_raises(_all_false)
    def batch_set_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Stores pages from the host pool; False only for what trying again might store."""
        before, deadline = _page_before(extra_info), self._io.write_deadline()
        return self._paged.set(PoolName.KV, keys, host_indices, before, deadline)

    @_never_raises(_each_false)
    def batch_get_v2(
        self,
        transfers: list[PoolTransfer],
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> dict[str, list[bool]]:
        """batch_get_v1 for the pools of a hybrid model, one answer per page each."""
        deadline = self._io.read_deadline()
        return {t.name: self._get_transfer(t, deadline) for t in transfers}

    @_never_raises(_each_false)
    def batch_set_v2(
        self,
        transfers: list[PoolTransfer],
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> dict[str, list[bool]]:
        """batch_set_v1 for the pools of a hybrid model, one answer per page each."""
        before, deadline = _page_before(extra_info), self._io.write_deadline()
        return {t.name: self._set_transfer(t, before, deadline) for t in transfers}

    # A pool that fails does not take the others with it.

    @_never_raises(_pages_false)
    def _get_transfer(self, transfer: PoolTransfer, deadline: float) -> list[bool]:
        return self._paged.get(
            transfer.name, transfer.keys or [], transfer.host_indices, deadline
        )

    @_never_raises(_pages_false)
    def _set_transfer(self, transfer: PoolTransfer, before: str, deadline: float) -> list[bool]:
        return self._paged.set(
            transfer.name, transfer.keys or [], transfer.host_indices, before, deadline
        )

    # Pages as tensors: the generic interface (flat.py).

    @_never_raises(lambda *_, **__: None)
    def get(
        self, key: str, target_location: Any = None, target_sizes: Any = None
    ) -> torch.Tensor | None:
        """Fills `target_location` (a contiguous CPU tensor) and returns it; None for a miss."""
        return self._flat.get([key], [target_location])[0]

    @_never_raises(_all_none)
    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[torch.Tensor | None]:
        """As `get`, one entry per key."""
        return self._flat.get(keys, target_locations)

    @_never_raises(lambda *_, **__: False)
    def set(
        self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None
    ) -> bool:
        """Stores the bytes of `value` (a CPU tensor); see batch_set_v1 for what True means."""
        return self._flat.set([key], [value])

    @_never_raises(lambda *_, **__: False)
    def batch_set(
        self,
        keys: list[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """As `set`; True when all of them are."""
        return self._flat.set(keys, values)

    # The rest.

    def clear(self) -> bool:
        """Removes what this rank has stored or found lately; True when all of that is gone.

        Not the whole namespace: other engines use it. For that, name another one, or another `tag`.
        """
        keys = self._recent.take()
        if self._io is None or not keys:
            return True
        gone = self._io.remove(keys)
        logger.info(
            "moonpool: clear: %s the %d objects that this rank stored or found",
            "removed" if gone else "could not remove all of", len(keys),
        )
        return gone

    def get_stats(self) -> Any:
        """sglang's StorageMetrics since the last call; None when the metrics are off."""
        return self._figures.take()

    def counts(self) -> dict[str, int]:
        """Since attach: objects queried, found, read, written, and every kind of trouble."""
        return self._io.counts() if self._io is not None else {}

    def _complain(self, method: str, error: Exception) -> None:
        """An error that is not the pool's: of a host pool, or a mistake in here."""
        message = f"{method} gave up: {type(error).__name__}: {error}"
        if self._io is None:
            logger.error("moonpool: %s (register_mem_pool_host was not called)", message)
        else:
            self._io.complain(f"{method}_gave_up", logging.ERROR, message)


def _page_before(extra_info: HiCacheStorageExtraInfo | None) -> str:
    """Hash of the page before this call's first; "" without hicache_storage_pass_prefix_keys."""
    prefix = extra_info.prefix_keys if extra_info is not None else None
    return prefix[-1] if prefix else ""
