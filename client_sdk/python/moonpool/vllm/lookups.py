"""Questions to the pool that are asked at once and answered later.

Both tables belong to one thread (the scheduler's), which they never block: a question that is new,
or under way, has the answer None ("ask again"). Answers are kept until the request that asked is
forgotten. While the pool is away the answer is "no" at once, also when only loads are in vain: what
cannot be loaded is not worth finding.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .pool import LOAD, LOOK_UP, Pool
from .workers import Workers


@dataclass
class _Key:
    """What is known of one key, and who wants to know."""

    found: bool | None = None
    asked: bool = False
    requests: set[str] = field(default_factory=set)


class ExistsTable:
    """Which single keys are in the pool. Questions are collected, and sent together by flush().

    name_of(key) is the key's name in the pool.
    """

    def __init__(self, pool: Pool, workers: Workers, name_of: Callable[[Any], str]) -> None:
        self._pool = pool
        self._workers = workers
        self._name_of = name_of
        self._keys: dict[Hashable, _Key] = {}
        self._of_request: dict[str, set[Hashable]] = {}
        self._new: list[Hashable] = []
        self._answers: queue.SimpleQueue[tuple[list[Hashable], list[bool]]] = queue.SimpleQueue()

    def ask(self, key: Hashable, request: str) -> bool | None:
        """True or False, or None: not known yet, and will be after the next flush()."""
        self._take_answers()
        entry = self._keys.get(key)
        if entry is None:
            if self._pool.away(LOOK_UP, LOAD):
                return False
            entry = self._keys[key] = _Key()
            self._new.append(key)
        if request not in entry.requests:
            entry.requests.add(request)
            self._of_request.setdefault(request, set()).add(key)
        return entry.found

    def flush(self) -> None:
        """Sends the questions collected since the last call."""
        self._take_answers()
        keys = [key for key in self._new if key in self._keys and not self._keys[key].asked]
        self._new.clear()
        if not keys:
            return
        for key in keys:
            self._keys[key].asked = True
        limits = self._pool.limits(lookup=True)

        def task() -> None:
            found = [False] * len(keys)
            try:
                found = self._pool.exists([self._name_of(key) for key in keys], limits)
            finally:
                self._answers.put((keys, found))

        if not self._workers.submit(task, urgent=True):
            self._answers.put((keys, [False] * len(keys)))

    def correct(self, keys: Iterable[Hashable], found: bool) -> None:
        """Puts an answer right that has turned out wrong (a load failed), or is out of date."""
        for key in keys:
            if (entry := self._keys.get(key)) is not None:
                entry.found, entry.asked = found, True

    def forget(self, request: str) -> None:
        """Drops what only this request asked for."""
        for key in self._of_request.pop(request, ()):
            entry = self._keys[key]
            entry.requests.discard(request)
            if not entry.requests:
                del self._keys[key]

    def _take_answers(self) -> None:
        while not self._answers.empty():
            keys, found = self._answers.get()
            for key, answer in zip(keys, found):
                entry = self._keys.get(key)
                if entry is not None and entry.found is None:
                    entry.found = answer


class MatchTable:
    """How far each request's chain of blocks is in the pool, for all of several rank parts."""

    def __init__(self, pool: Pool, workers: Workers) -> None:
        self._pool = pool
        self._workers = workers
        self._known: dict[str, tuple[int, int | None]] = {}  # request -> first block, matched
        self._answers: queue.SimpleQueue[tuple[str, int, int]] = queue.SimpleQueue()

    def ask(
        self, request: str, first: int, make_chains: Callable[[], Sequence[Sequence[str]]]
    ) -> int | None:
        """How many blocks from `first` on all chains have, or None: not known yet.

        make_chains() gives, for each rank part, the keys of the request's blocks from `first` on;
        it runs when the question is new. What was learned for an earlier `first` answers for later
        ones, too.
        """
        self._take_answers()
        known = self._known.get(request)
        if known is not None and known[0] <= first:
            return None if known[1] is None else max(0, known[0] + known[1] - first)
        if self._pool.away(LOOK_UP, LOAD):
            return 0
        chains = make_chains()
        self._known[request] = (first, None)
        limits = self._pool.limits(lookup=True)

        def task() -> None:
            shortest = 0
            try:
                matched = len(chains[0])
                for keys in chains:
                    matched = self._pool.match(keys[:matched], limits) if matched else 0
                shortest = matched
            finally:
                self._answers.put((request, first, shortest))

        if not self._workers.submit(task, urgent=True):
            self._known[request] = (first, 0)
            return 0
        return None

    def forget(self, request: str) -> None:
        """Drops what is known of the request; an answer that comes later is ignored."""
        self._known.pop(request, None)

    def _take_answers(self) -> None:
        while not self._answers.empty():
            request, first, matched = self._answers.get()
            if self._known.get(request) == (first, None):
                self._known[request] = (first, matched)
