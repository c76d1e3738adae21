"""The ``adapter_params`` of LMCache's configuration: one frozen record, checked.

    options = Options.parse({"masters": "pool:7400", "fingerprint": {"dtype": "bfloat16"}})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moonpool import _options
from moonpool._layout import fingerprint as fingerprint_of

_WHERE = "adapter_params"


@dataclass(frozen=True)
class Options:
    """What a user may set; times in seconds."""

    # "host:port" each; given as a list, or separated by commas. None are given: $MOONPOOL_MASTER.
    masters: tuple[str, ...] = ()
    # Keys of two namespaces have nothing to do with each other.
    namespace: str = "lmcache"
    # What makes bytes of one engine wrong for another and is not in LMCache's keys (which have the
    # model's name, rank, group and the hash of tokens): dtype, revision or weights, chunk size,
    # layout. A mapping, or a text; required. The namespace is made with it, and refused if it has
    # another. Nothing else tells apart what it leaves out.
    fingerprint: str = ""
    # Of the client, see moonpool.Client.
    path: str = "auto"
    verify: bool = True
    tcp_streams: int = 2
    # Of a batch of stores or deletions, its time in the queue too; and of lookups and loads.
    store_timeout: float = 10.0
    load_timeout: float = 5.0
    # Sit out an outage of the masters until the timeout. False: batches fail after about a second,
    # those that follow at once, and LMCache computes.
    wait_for_master: bool = False
    # Stores wait for room instead of failing at once when nothing may be evicted.
    wait_for_space: bool = False
    # On different nodes.
    replicas: int = 1
    # For stores, and as many for lookups and loads.
    threads: int = 4
    # Batches that may wait for a thread; one more completes at once as failed.
    queue: int = 256

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """The options in `given`, checked.

        Raises ValueError: an unknown name, a value of another type, or one that makes no sense.
        """
        layout = given.get("fingerprint")
        if isinstance(layout, Mapping):
            given = {**given, "fingerprint": fingerprint_of(**layout)}
        elif layout is None:
            given = {**given, "fingerprint": ""}
        options = _options.parse(cls, given, _WHERE)
        options._check()
        return options

    def _check(self) -> None:
        _options.check_client(self)
        _options.check_namespace(self.namespace)
        if not self.fingerprint:
            raise ValueError(f"moonpool: {_WHERE} has no fingerprint: name what makes chunks unlike "
                             'and is not in their keys, such as {"dtype": "bfloat16", "revision": '
                             '"main"}')
        _options.above_0(self, "store_timeout", "load_timeout")
        _options.require(1 <= self.threads <= 256, "threads", "1 to 256")
        _options.at_least_1(self, "queue")
