"""Which batches may go to the pool, and what a person should know of those that came back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from moonpool._outage import AWAY_CODES, Breaker, QuietLog, Ticket

LOOKUPS, LOADS, STORES = "lookups", "loads", "stores"  # and deletions, with the stores

NOT_TRIED = "UNAVAILABLE: not tried while the pool is away"

_CODE = re.compile(r"([A-Z_]+)(?: \(([A-Z_]+)\))?: ")


class Admission:
    """One breaker for each kind of batch: where a node hangs, lookups work and loads do not.

    ``emit(level, line)`` writes a line of the log; each kind of line is written once in a while.
    Thread-safe.
    """

    def __init__(self, emit: Callable[[int, str], None], clock: Callable[[], float]) -> None:
        self._breakers = {what: Breaker(clock) for what in (LOOKUPS, LOADS, STORES)}
        self._quiet = QuietLog(emit, clock)

    def admit(self, what: str) -> Ticket | None:
        """May this batch go? None: it may not. Who has a ticket calls `note` or `never_went`."""
        return self._breakers[what].admit()

    def never_went(self, what: str, ticket: Ticket) -> None:
        self._breakers[what].learnt_nothing(ticket)

    def note(
        self, what: str, ticket: Ticket, ok: bool, error: str, results: Sequence[bool]
    ) -> None:
        """Of a batch that is done; ``error`` is that of the first key that failed, or ""."""
        code, reason = _code_and_reason(error)
        if code == "CANCELLED":  # by close()
            return self.never_went(what, ticket)
        pause = ""
        if reason == "LIMIT_REACHED":  # of this process's queue: nobody was asked
            self.never_went(what, ticket)
        elif code in AWAY_CODES and not ok and not any(results):
            pause = self._pause(what, ticket)
        elif self._breakers[what].succeeded(ticket):
            self._quiet.say((what, "back"), f"{what} go well again")
        if error:
            self._quiet.say((what, code, reason), f"{what}: {error}{pause}")

    def _pause(self, what: str, ticket: Ticket) -> str:
        breaker = self._breakers[what]
        breaker.failed(ticket)
        return (f" (they fail at once for {breaker.seconds_left():.1f} s now, then one is tried, "
                "and so on with longer pauses)")


def _code_and_reason(error: str) -> tuple[str, str]:
    """Those that the client's description of a status begins with."""
    found = _CODE.match(error)
    return (found[1], found[2] or "") if found else ("", "")
