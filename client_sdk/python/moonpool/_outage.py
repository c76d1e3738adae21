"""What tells that a pool is away, and keeps that from slowing an engine or flooding its log.

Private to this package's engine adapters. Pure but for the clock, which is given.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

_KINDS_MAX = 256
# Of errors that tell of the pool, not of an object or of what was asked: out of reach, or too slow.
AWAY_CODES = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})


def is_away(answer: Any) -> bool:
    """Is this entry of a batch, or what a call raised, the error that nobody has answered?"""
    return getattr(answer, "code", "") in AWAY_CODES


def nobody_answered(answers: Sequence[Any]) -> bool:
    """Of a whole batch: one answer, and were it a refusal, shows that the pool works."""
    return bool(answers) and all(map(is_away, answers))


class Ticket:
    """Of one admitted call: says which period its outcome tells of. Always true."""

    __slots__ = ("is_probe",)

    def __init__(self, is_probe: bool) -> None:
        self.is_probe = is_probe


class Breaker:
    """Lets calls through while they work; after one that failed, one probe per pause.

    Closed: every call goes. `failed` opens it for `first_pause` seconds, twice as long each time up
    to `longest_pause`; then one caller is let through as a probe, while the others still miss.
    `succeeded` closes it. Thread-safe; `clock` counts seconds and never goes back.

        if not (ticket := breaker.admit()):
            return MISS
        ...
        breaker.succeeded(ticket)  # or failed, or learnt_nothing, whatever happens

    An outcome counts only for the period in which its call was admitted. A call from before an
    outage that ends in it, or after it, says nothing about the probe, or about the pool as it is
    now.
    """

    def __init__(
        self, clock: Callable[[], float], first_pause: float = 0.5, longest_pause: float = 15.0
    ) -> None:
        self._clock = clock
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._lock = threading.Lock()
        self._pause = 0.0  # of the open period that runs; 0 = closed
        self._due = 0.0  # when the next probe may go
        # Whose outcome counts. Closed: all calls have this one. Open: the probe's, or none has.
        self._counts: Ticket | None = Ticket(is_probe=False)

    @property
    def is_open(self) -> bool:
        """From a failure to the next success."""
        return self._pause > 0.0

    @property
    def is_pausing(self) -> bool:
        """True while no call would be let through, not even as a probe that nobody has begun.

        Takes no lock: for asking before the work of a call is prepared.
        """
        return self._pause > 0.0 and (self._counts is not None or self._clock() < self._due)

    def admit(self) -> Ticket | None:
        """May this call go? With the ticket it reports its outcome; None: it may not."""
        ticket = self._counts  # read once, without the lock: the common case, once per call
        if ticket is not None and not ticket.is_probe:
            return ticket
        with self._lock:
            if self._pause > 0.0:
                if self._counts is not None or self._clock() < self._due:
                    return None
                self._counts = Ticket(is_probe=True)
            return self._counts

    def succeeded(self, ticket: Ticket) -> bool:
        """The pool answered. True when that ended an open period."""
        if self._pause == 0.0:
            return False
        with self._lock:
            if not self._is_probe(ticket):
                return False
            self._pause = 0.0
            self._counts = Ticket(is_probe=False)
            return True

    def failed(self, ticket: Ticket, retry_after: float = 0.0) -> bool:
        """The pool did not answer. True when that began an open period."""
        with self._lock:
            if ticket is not self._counts:
                return False  # of another period, or counted already
            began = self._pause == 0.0
            self._pause = min(max(self._first_pause, self._pause * 2), self._longest_pause)
            self._due = self._clock() + max(self._pause, min(retry_after, self._longest_pause))
            self._counts = None
            return began

    def learnt_nothing(self, ticket: Ticket) -> None:
        """The caller ended the call before the pool could answer: the next one is the probe."""
        if self._pause == 0.0:
            return
        with self._lock:
            if self._is_probe(ticket):
                self._counts = None

    def seconds_left(self) -> float:
        """Until the next probe may go; 0 while calls go."""
        with self._lock:
            return max(0.0, self._due - self._clock()) if self._pause > 0.0 else 0.0

    def _is_probe(self, ticket: Ticket) -> bool:
        return ticket.is_probe and ticket is self._counts


class QuietLog:
    """Passes each kind of line on at most once per `every` seconds, and says how often it was.

    `kind` comes from a small closed set (operation, code, reason), never from a key.
    emit(level, line) writes it; it runs on the caller's thread, without a lock. Thread-safe.
    """

    def __init__(
        self, emit: Callable[[int, str], None], clock: Callable[[], float], every: float = 30.0
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._every = every
        self._lock = threading.Lock()
        self._last: dict[Hashable, float] = {}
        self._withheld: dict[Hashable, int] = {}

    def say(self, kind: Hashable, line: str, level: int = logging.WARNING) -> None:
        """Writes `line` unless one of the same kind was written a moment ago."""
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
            line += f" ({withheld} more like this since the last such line)"
        self._emit(level, line)
