"""A log that a broken pool cannot flood."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable

_KINDS_MAX = 256


class QuietLog:
    """Logs each kind of trouble at most once per `every` seconds, and says how often it was.

    `kind` comes from a small closed set (operation, code, reason), never from a key. Thread-safe.
    """

    def __init__(
        self, logger: logging.Logger, clock: Callable[[], float], every: float
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._every = every
        self._lock = threading.Lock()
        self._last: dict[Hashable, float] = {}
        self._withheld: dict[Hashable, int] = {}

    def say(self, kind: Hashable, level: int, message: str) -> None:
        with self._lock:
            now = self._clock()
            last = self._last.get(kind)
            if last is not None and now - last < self._every:
                self._withheld[kind] = self._withheld.get(kind, 0) + 1
                return
            if len(self._last) >= _KINDS_MAX:  # more kinds than there should be: begin anew
                self._last.clear()
                self._withheld.clear()
            self._last[kind] = now
            withheld = self._withheld.pop(kind, 0)
        if withheld:
            message += f" ({withheld} more like this since the last such line)"
        self._logger.log(level, "moonpool: %s", message)
