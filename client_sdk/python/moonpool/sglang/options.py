"""The back end's own settings: what stands beside `backend_name` in SGLang's extra config.

One table, one dataclass: a name that is not in it is an error at attach, with the nearest name as
a hint, because an option that is silently ignored is found out weeks later.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

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

    masters: tuple[str, ...]  # "host:port" each; as a string: separated by commas

    # Who may share pages with whom. See moonpool.sglang.naming.
    namespace: str = ""  # empty: made from the layout, so that each layout has its own
    model: str = ""  # name of the weights; empty: served name and path, as SGLang says
    revision: str = ""  # which weights, draft model's too; empty: as SGLang and their files say
    kv_cache_dtype: str = ""  # the numbers in pools of bytes; empty: what SGLang was started with
    tag: str = ""  # anything else that makes bytes incompatible (a patch, a calibration)

    # How pages are stored.
    replicas: int = 1
    min_replicas: int = 0
    wait_for_space: bool = False  # True: a put waits, up to write_timeout, while the pool is full

    # How the pool is reached; as in moonpool.Client.
    path: str = "auto"
    verify: bool = True
    tcp_streams: int = 2
    host_id: str = ""

    # Time.
    attach_timeout: float = 10.0
    query_timeout: float = 1.0  # batch_exists: on the way of a request to its first token
    read_timeout: float = 4.0  # one batch of pages
    write_timeout: float = 4.0
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

    @staticmethod
    def parse(extra_config: Mapping[str, Any] | None) -> Options:
        """The settings in SGLang's extra config; ValueError names every mistake's place."""
        fields = {field.name: field for field in dataclasses.fields(Options)}
        given = {k: v for k, v in (extra_config or {}).items() if k not in SGLANG_KEYS}
        for key in given:
            if key not in fields:
                near = difflib.get_close_matches(key, fields, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {sorted(fields)}"
                raise ValueError(f"moonpool: no option {key!r} in the extra config{hint}")
        masters = _masters(given.pop("masters", None))
        values = {key: _typed(key, fields[key].default, value) for key, value in given.items()}
        options = Options(masters=masters, **values)
        options._check()
        return options

    def _check(self) -> None:
        _require(self.pool_away_at_attach in ("fail", "miss"), "pool_away_at_attach: fail or miss")
        _require(self.path in ("auto", "tcp", "shm"), "path: auto, tcp or shm")
        for name in ("attach_timeout", "query_timeout", "read_timeout", "write_timeout"):
            value = getattr(self, name)
            _require(0 < value < 5 or name == "attach_timeout" and 0 < value <= 600,
                     f"{name}: over 0 and under 5 s (SGLang waits 10 s for its threads)")
        _require(self.hold >= 0, "hold: 0 or more")
        _require(self.chunk_bytes > 0, "chunk_bytes: over 0")
        _require(1 <= self.replicas and 0 <= self.min_replicas <= self.replicas,
                 "replicas: 1 or more, min_replicas: 0 to replicas")
        _require(0 < self.pause_first <= self.pause_longest, "pause_first: over 0, not the longest")
        _require(self.log_every >= 0 and self.summary_every >= 0, "log_every: 0 or more")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"moonpool: in the extra config, {what}")


def _masters(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if value is None:
        value = ()
    if not isinstance(value, Sequence) or not all(isinstance(part, str) for part in value):
        raise ValueError("moonpool: masters is 'host:port[,host:port]' or a list of such")
    masters = tuple(part.strip() for part in value if part.strip())
    if not masters:
        raise ValueError(
            "moonpool: the extra config names no masters; add \"masters\": \"host:7400\""
        )
    return masters


def _typed(key: str, default: Any, value: Any) -> Any:
    """`value` as the type of `default`; JSON has no tuple and writes 4 for 4.0."""
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
    elif isinstance(default, float):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif isinstance(default, int):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(value, str):
        return value
    raise ValueError(
        f"moonpool: option {key!r} is {value!r}, but it is a {type(default).__name__}"
    )
