"""The client that LMCache's native_plugin adapter wants: checked options, and what it is spared."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from moonpool import _native
from moonpool._outage import Ticket
from moonpool.lmcache.admission import LOADS, LOOKUPS, NOT_TRIED, STORES, Admission
from moonpool.lmcache.options import Options

_log = logging.getLogger("moonpool.lmcache")

Completion = tuple[int, bool, str, list[bool]]


class Connector:
    """Batches of chunks, stored and loaded without waiting.

    Made by LMCache with the ``adapter_params`` of its configuration. Threads: all methods but
    ``drain_completions`` on any, at once; that one on one thread. None of them waits, ``close``
    aside. Loads and lookups never wait behind stores. While the pool is away batches are done at
    once, as failed; now and then one is tried.

    Buffers: those of a batch are lent from when it is submitted until ``drain_completions`` has
    returned its number; after ``close`` none is touched.

    Keys go to the pool as LMCache gives them, in a namespace of their own.
    """

    def __init__(self, **adapter_params: Any) -> None:
        """Reaches the master and opens the namespace; raises when that cannot be done.

        ``adapter_params`` are the fields of ``Options``; `fingerprint` may be a mapping, `masters`
        a text or a list. ValueError names what is wrong with them.
        """
        options = Options.parse(adapter_params)
        self._native = _native.Connector(
            **dataclasses.asdict(options) | {"masters": list(options.masters)},
            on_warning=lambda line: _log.warning("%s", line))
        self._admission = Admission(lambda level, line: _log.log(level, "%s", line), time.monotonic)
        self._lock = threading.Lock()
        self._under_way: dict[int, tuple[str, Ticket]] = {}  # by the batch's number
        self._refused: list[Completion] = []
        self._last_refused = 0  # numbers of their own, below those of the native connector

    def submit_batch_set(self, keys: Sequence[str], views: Sequence[Any]) -> int:
        """Stores one buffer under each key. The number of the batch."""
        return self._submit(STORES, self._native.submit_batch_set, keys, views)

    def submit_batch_get(self, keys: Sequence[str], views: Sequence[Any]) -> int:
        """Loads each key into its buffer."""
        return self._submit(LOADS, self._native.submit_batch_get, keys, views)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Looks up which can be read."""
        return self._submit(LOOKUPS, self._native.submit_batch_exists, keys)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Deletes, for all servers."""
        return self._submit(STORES, self._native.submit_batch_delete, keys)

    def _submit(self, what: str, submit: Callable[..., int], keys: Sequence[str],
                *views: Sequence[Any]) -> int:
        if not (ticket := self._admission.admit(what)):
            return self._refuse(len(keys))
        with self._lock:  # it must not be drained before it is known to be under way
            try:
                number = submit(keys, *views)
            except BaseException:
                self._admission.never_went(what, ticket)
                raise
            self._under_way[number] = (what, ticket)
        return number

    def _refuse(self, keys: int) -> int:
        with self._lock:
            self._last_refused -= 1
            number = self._last_refused
            self._refused.append((number, False, NOT_TRIED, [False] * keys))
        self._native.wake()
        return number

    def event_fd(self) -> int:
        """Readable while there are batches to drain; open until the connector is gone."""
        return self._native.event_fd()

    def drain_completions(self) -> list[Completion]:
        """(number, ok, error, one result for each key) of the batches that are done.

        A store's result is True where the pool has the chunk now, a load's where the buffer was
        filled to its end with verified bytes, a lookup's where the chunk can be read, a deletion's
        where it is gone. ``ok`` of a store is True when all of it is stored.
        """
        completions = self._native.drain_completions()  # first: it takes back what the fd says
        with self._lock:
            refused, self._refused = self._refused, []
            batches = [self._under_way.pop(completion[0]) for completion in completions]
        for (what, ticket), (_, *outcome) in zip(batches, completions):
            self._admission.note(what, ticket, *outcome)
        return completions + refused

    def stats(self) -> dict[str, int]:
        """Counts since the start: gets, hits, misses, get_bytes, puts, put_bytes,
        checksum_failures; zeros once it is closed."""
        return self._native.stats()

    def close(self) -> None:
        """Cancels what is under way and waits until nothing touches a buffer. Idempotent."""
        self._native.close()
