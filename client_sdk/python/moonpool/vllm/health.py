"""What keeps a pool that is away from slowing the engine down: a circuit breaker, and log lines
that do not flood. Pure but for the clock, which is given."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Breaker:
    """Open after an outage: until `until`, nobody should even try. Thread-safe.

    The pause doubles with each outage that follows another without a success in between, from
    `first` to `longest` seconds.
    """

    def __init__(self, clock: Callable[[], float], first: float, longest: float) -> None:
        self._clock = clock
        self._first = first
        self._longest = longest
        self._lock = threading.Lock()
        self._pause = 0.0
        self._until = 0.0

    @property
    def open(self) -> bool:
        """True while calls would be in vain."""
        return self._until != 0.0 and self._clock() < self._until

    def failed(self) -> float:
        """Notes an outage; returns for how many seconds nobody should try."""
        with self._lock:
            now = self._clock()
            if now >= self._until:  # the calls that were under way together are one outage
                self._pause = min(max(2 * self._pause, self._first), self._longest)
                self._until = now + self._pause
            return self._until - now

    def worked(self) -> bool:
        """Notes a success; True when it ends an outage."""
        if self._pause == 0.0:  # read without the lock: the common case, once per call
            return False
        with self._lock:
            ended, self._pause, self._until = self._pause != 0.0, 0.0, 0.0
            return ended


class Quiet:
    """Passes each kind of line on at most once in `interval` seconds, and counts the others."""

    def __init__(
        self, emit: Callable[[str], None], clock: Callable[[], float], interval: float = 30.0
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._interval = interval
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}
        self._dropped: dict[str, int] = {}

    def say(self, kind: str, line: str) -> None:
        """Writes `line` unless one of the same kind was written a moment ago."""
        with self._lock:
            now = self._clock()
            last = self._last.get(kind)
            if last is not None and now - last < self._interval:
                self._dropped[kind] = self._dropped.get(kind, 0) + 1
                return
            self._last[kind] = now
            dropped = self._dropped.pop(kind, 0)
        self._emit(f"{line} ({dropped} more like it)" if dropped else line)
