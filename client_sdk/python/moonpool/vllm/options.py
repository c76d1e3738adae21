"""The options of both integrations: one frozen record, made from what vLLM's configuration holds.

    options = Options.parse({"masters": "pool:7400", "threads": 8})

A misspelt option is an error that names the nearest one; nothing is ignored in silence.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

SAVE_ALL, SAVE_PROMPT = "all", "prompt"
PATHS = ("auto", "tcp", "shm")

# What is logged when an engine's caches are reset.
LEFT = ("moonpool: this engine's caches were reset, as they are for other weights: from now on it "
        "neither loads nor stores. Restart it with another revision to share blocks of new "
        "weights; if its weights never change, set fixed_weights")


@dataclass(frozen=True)
class Options:
    """What a user may set. Durations in seconds, sizes in bytes."""

    # Where the masters are: "host:port[,host:port]" or a list. None: $MOONPOOL_MASTER.
    masters: str | list[str] | None = None
    # First part of the namespace's name; the rest says model and layout.
    namespace: str = "vllm"
    # Which model this is. Default: vLLM's name of it, which is a path for local models: set it when
    # the same model lies in different folders, or different models in one.
    model: str = ""
    # Which weights. Default: vLLM's commit or revision of them, or what lies in the model's folder.
    # The tier is mostly not told: there it must be set, and says as well how the model is run (see
    # docs/VLLM.md).
    revision: str = ""
    # Anything else that makes blocks differ and that vLLM's names do not tell (a patched kernel).
    flavor: str = ""
    # The tier: vLLM's --cp-kv-cache-interleave-size, with decode context parallelism; 0: not said.
    cp_kv_cache_interleave_size: int = 0
    replicas: int = 1
    # Of a load or a store, with the time that it waits for a thread. A load that takes longer
    # fails, and the engine computes the blocks.
    timeout: float = 10.0
    # Of a lookup, likewise. While it is under way the request waits, and the others run on.
    lookup_timeout: float = 2.0
    # Keeps what a lookup found in place for the load that follows; 0: no lease.
    hold: float = 0.0
    # Threads that move blocks. One of them is never taken by stores.
    threads: int = 4
    # Loads and stores that may wait for a thread; more of them fail at once.
    queue: int = 1024
    # Large jobs are cut into slices of about this size, which run on several threads.
    slice_bytes: int = 32 << 20
    # After an outage lookups miss at once for this long; twice as long after each further one.
    backoff: float = 1.0
    max_backoff: float = 30.0
    # The connector: "all" full blocks, or those of the "prompt" only.
    save: str = SAVE_ALL
    # The connector: at most this part of the KV cache may be held by stores that are under way.
    max_pinned: float = 0.25
    # The weights stay as they are as long as the engine runs: resets of its caches (sleep,
    # benchmarks) are no reason to leave the pool.
    fixed_weights: bool = False
    # Go on although no other process can compute the same block hashes.
    allow_private_hashes: bool = False
    # Of the client, see moonpool.Client.
    path: str = "auto"
    verify: bool = True
    tcp_streams: int = 2

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """The options in `given`, checked.

        Raises ValueError: an unknown name, a value of another type, or one that makes no sense.
        """
        known = [field.name for field in fields(cls)]
        chosen: dict[str, Any] = {}
        for name, value in given.items():
            if name in known:
                chosen[name] = value
            else:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
                raise ValueError(f"moonpool: unknown option {name!r}{hint}")
        options = cls(**chosen)
        options._check()
        return options

    def _check(self) -> None:
        kinds = get_type_hints(type(self))
        for field in fields(self):
            _check_type(field.name, getattr(self, field.name), kinds[field.name])
        if not self.masters and not os.environ.get("MOONPOOL_MASTER"):
            raise ValueError("moonpool: where is the pool? Set the option masters to host:port, "
                             "or MOONPOOL_MASTER in the environment")
        for name in ("timeout", "lookup_timeout", "backoff", "max_backoff", "slice_bytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"moonpool: {name} must be above 0, not {getattr(self, name)!r}")
        for name in ("replicas", "threads", "queue", "tcp_streams"):
            if getattr(self, name) < 1:
                raise ValueError(f"moonpool: {name} must be at least 1")
        for name, words in {"save": (SAVE_ALL, SAVE_PROMPT), "path": PATHS}.items():
            if getattr(self, name) not in words:
                raise ValueError(f"moonpool: {name} is one of {', '.join(map(repr, words))}, "
                                 f"not {getattr(self, name)!r}")
        if not 0 < self.max_pinned <= 1:
            raise ValueError("moonpool: max_pinned is a part of the KV cache: above 0, at most 1")
        for name in ("hold", "cp_kv_cache_interleave_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"moonpool: {name} must not be negative")


# What a value of each declared type may be, and how people say it.
_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    str: ((str,), "a string"),
    str | list[str] | None: ((str, list, tuple, type(None)), "a string or a list of strings"),
}


def _check_type(name: str, value: Any, kind: Any) -> None:
    types, said = _KINDS[kind]
    fits = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
    if isinstance(value, (list, tuple)):
        fits = fits and all(isinstance(part, str) for part in value)
    if not fits:
        raise ValueError(f"moonpool: {name} must be {said}, not {value!r}")
