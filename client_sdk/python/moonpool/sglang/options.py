"""The back end's own settings: what stands beside `backend_name` in SGLang's extra config.

One table, one dataclass: a name that is not in it is an error at attach.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from moonpool import _options

# Keys of the extra config that are SGLang's, not ours. It takes some of them out before we see them
# (prefetch_*, tp_lcm_size), but other versions leave them in.
SGLANG_KEYS = frozenset(
    {
        "backend_name",
        "module_path",
        "class_name",
        "interface_v1",
        "allocator",
        "tp_lcm_size",
        "prefetch_threshold",
        "prefetch_timeout_base",
        "prefetch_timeout_per_ki_token",
        "hicache_storage_pass_prefix_keys",
    }
)


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings of one back end; times in seconds, sizes in bytes.

    SGLang gives its storage threads 10 s to end when a back end is detached, and a thread ends only
    between two calls. So the timeouts of a read and of a write stay below half of that.
    """

    # "host:port" each; given as a list, or separated by commas. None are given: $MOONPOOL_MASTER.
    masters: tuple[str, ...] = ()

    # Who may share pages with whom. See moonpool.sglang.naming.
    namespace: str = ""  # empty: made from the layout, so that each layout has its own
    model: str = ""  # name of the weights; empty: served name and path, as SGLang says
    revision: str = ""  # which weights, draft model's too; empty: as SGLang and their files say
    kv_cache_dtype: str = ""  # the numbers in pools of bytes; empty: what SGLang was started with
    tag: str = ""  # anything else that makes bytes incompatible (a patch, a calibration)

    # How pages are stored.
    replicas: int = 1
    min_replicas: int = 0
    wait_for_space: bool = False  # True: a put waits, up to store_timeout, while the pool is full

    # How the pool is reached; as in moonpool.Client.
    path: str = "auto"
    verify: bool = True
    tcp_streams: int = 2
    host_id: str = ""

    # Time.
    attach_timeout: float = 10.0
    lookup_timeout: float = 1.0  # batch_exists: on the way of a request to its first token
    load_timeout: float = 4.0  # one batch of pages
    store_timeout: float = 4.0
    hold: float = 3.0  # what a query found is not evicted for so long (as the pool allows)
    chunk_bytes: int = 256 << 20  # a batch goes in pieces of so much: what is done by the deadline
    # counts, from the front

    # While the pool is away.
    pool_away_at_attach: str = "fail"  # or "miss": start without it and take it when it comes
    pause_first: float = 0.5  # after a failed call the next ones miss at once for so long,
    pause_longest: float = 15.0  # twice as long each time

    # Log.
    log_every: float = 30.0  # the same trouble once per so long
    summary_every: float = 60.0  # hits, misses and bytes in one line; 0: never

    @classmethod
    def parse(cls, extra_config: Mapping[str, Any] | None) -> Options:
        """The settings in SGLang's extra config; ValueError names every mistake's place."""
        given = {k: v for k, v in (extra_config or {}).items() if k not in SGLANG_KEYS}
        options = _options.parse(cls, given, "the extra config")
        options._check()
        return options

    def _check(self) -> None:
        _options.check_common(self)
        if self.namespace:
            _options.check_namespace(self.namespace)
        _options.above_0(self, "chunk_bytes")
        _options.require(self.pool_away_at_attach in ("fail", "miss"), "pool_away_at_attach",
                         "fail or miss")
        for name in ("lookup_timeout", "load_timeout", "store_timeout"):
            _options.require(0 < getattr(self, name) < 5, name,
                             "above 0 and under 5 s (SGLang waits 10 s for its threads)")
        _options.require(0 < self.attach_timeout <= 600, "attach_timeout", "above 0, at most 600 s")
        _options.require(0 <= self.min_replicas <= self.replicas, "min_replicas", "0 to replicas")
        _options.require(self.log_every >= 0, "log_every", "0 or more")
        _options.require(self.summary_every >= 0, "summary_every", "0 or more")
