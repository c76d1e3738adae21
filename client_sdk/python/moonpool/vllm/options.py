"""The options of both integrations: one frozen record, made from what vLLM's configuration holds.

    options = Options.parse({"masters": "pool:7400", "threads": 8})

A misspelt option is an error that names the nearest one; nothing is ignored in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import _options

SAVE_ALL, SAVE_PROMPT = "all", "prompt"

# With the model's name, the layout's digest and the fingerprint a namespace has 254 bytes at most.
_NAMESPACE_BYTES_MAX = 100

# What is logged when an engine's caches are reset.
LEFT = ("moonpool: this engine's caches were reset, as they are for other weights: from now on it "
        "neither loads nor stores. Restart it with another revision to share blocks of new "
        "weights; if its weights never change, set fixed_weights")


@dataclass(frozen=True)
class Options:
    """What a user may set. Durations in seconds, sizes in bytes."""

    # Where the masters are, "host:port" each; given as a list, or separated by commas. None are
    # given: $MOONPOOL_MASTER.
    masters: tuple[str, ...] = ()
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
    tag: str = ""
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
    pause_first: float = 1.0
    pause_longest: float = 30.0
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
        options = _options.parse(cls, given, "kv_transfer_config")
        options._check()
        return options

    def _check(self) -> None:
        _options.check_common(self)
        _options.check_namespace(self.namespace, _NAMESPACE_BYTES_MAX)
        _options.above_0(self, "timeout", "lookup_timeout", "slice_bytes")
        _options.at_least_1(self, "threads", "queue")
        _options.require(self.save in (SAVE_ALL, SAVE_PROMPT), "save",
                         f"{SAVE_ALL!r} or {SAVE_PROMPT!r}")
        _options.require(0 < self.max_pinned <= 1, "max_pinned",
                         "a part of the KV cache: above 0, at most 1")
        _options.require(self.cp_kv_cache_interleave_size >= 0, "cp_kv_cache_interleave_size",
                         "0 or more")
