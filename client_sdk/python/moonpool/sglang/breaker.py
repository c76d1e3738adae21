"""Misses at once while the pool is away, instead of a timeout each."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Breaker:
    """Lets calls through while they work; after one that failed, one probe per pause.

    Closed: every call goes. `failed` opens it for `first_pause` seconds, twice as long each time up
    to `longest_pause`; then one caller is let through as a probe, while the others still miss.
    `succeeded` closes it. Thread-safe; `clock` counts seconds and never goes back.
    """

    def __init__(
        self, clock: Callable[[], float], first_pause: float, longest_pause: float
    ) -> None:
        self._clock = clock
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._lock = threading.Lock()
        self._pause = 0.0  # of the open period that runs; 0 = closed
        self._due = 0.0  # when the next probe may go
        self._probing = False

    @property
    def is_open(self) -> bool:
        with self._lock:
            return self._pause > 0

    def admit(self) -> bool:
        """May this call go? Who is told True reports `succeeded` or `failed`, whatever happens."""
        with self._lock:
            if self._pause == 0:
                return True
            if self._probing or self._clock() < self._due:
                return False
            self._probing = True
            return True

    def succeeded(self) -> bool:
        """The pool answered. True when that ended an open period."""
        with self._lock:
            was_open = self._pause > 0
            self._pause = 0.0
            self._probing = False
            return was_open

    def failed(self, retry_after: float = 0.0) -> bool:
        """The pool did not answer. True when that began an open period."""
        with self._lock:
            if self._pause > 0 and not self._probing:
                return False  # a call from before: its failure is counted already
            began = self._pause == 0
            self._pause = min(max(self._first_pause, self._pause * 2), self._longest_pause)
            self._due = self._clock() + max(self._pause, min(retry_after, self._longest_pause))
            self._probing = False
            return began
