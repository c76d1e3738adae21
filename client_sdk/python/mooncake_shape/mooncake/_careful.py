"""A client of the pool whose calls fail at once while the pool is away.

Callers ask before every request, and a call to masters that are away takes about a second.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import moonpool
from moonpool._outage import Breaker, nobody_answered
from mooncake._patience import clock

_log = logging.getLogger("mooncake.store")

NOT_TRIED = "NOT_TRIED"  # the reason of a call that was not made


class CarefulClient:
    """The calls of a ``moonpool.Client`` that a store needs, with the same results and errors.

    Once a call of a kind has found nobody, those of that kind are Unavailable (NOT_TRIED) for a
    while, then one is tried, and so on with longer pauses. Thread-safe.
    """

    def __init__(self, client: moonpool.Client) -> None:
        self.close = client.close
        self.exists = client.exists  # is how health is asked for: never refused
        # Where a node hangs the masters answer, and a pool that takes no writes may be read.
        ask, read, write = (self._admission(what) for what in ("lookups", "gets", "puts"))
        self.exists_many = ask(client.exists_many)
        self.describe_many = ask(client.describe_many)
        self.list_keys = ask(client.list_keys)
        self.remove_many = ask(client.remove_many)
        self.get_many = read(client.get_many)
        self.get_into_many = read(client.get_into_many)
        self.put_many = write(client.put_many)

    @staticmethod
    def _admission(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Makes calls that share a breaker."""
        breaker = Breaker(clock)
        return lambda call: functools.partial(_run, what, breaker, call)


def _run(what: str, breaker: Breaker, call: Callable[..., Any], /, *args: Any,
         **options: Any) -> Any:
    if not (ticket := breaker.admit()):
        raise moonpool.Unavailable(
            f"{what} are not tried while the pool is away", code="UNAVAILABLE", reason=NOT_TRIED,
            retry_after=breaker.seconds_left())
    answers: list[Any] | None = None  # None: it was not asked
    try:
        result = call(*args, **options)
        answers = result if isinstance(result, list) else [result]
        return result
    except moonpool.MoonpoolError as error:
        answers = [error]
        raise
    finally:
        if answers is None:
            breaker.learnt_nothing(ticket)
        elif nobody_answered(answers) and not any(map(_has_no_nodes, answers)):
            if breaker.failed(ticket):
                _log.warning("%s: the pool is away. They fail at once for %.1f s, then one is "
                             "tried, and so on with longer pauses", what, breaker.seconds_left())
        elif breaker.succeeded(ticket):
            _log.info("%s: the pool is back", what)


def _has_no_nodes(answer: Any) -> bool:
    """A master said so, and soon; callers are told with a number of its own."""
    return getattr(answer, "reason", "") == "NO_NODES"
