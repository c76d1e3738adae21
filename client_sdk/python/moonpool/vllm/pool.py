"""The pool as an engine sees it: calls that never raise, and never take long when it is away.

    pool = Pool(connect, options)
    found = pool.exists(["g0/3f0a", "g0/77c1"])       # [True, False]; all False when it is away

What cannot be had is a miss; what cannot be stored is not stored. The reason goes to the log, one
line per kind and half minute. After an outage nothing is tried for a while (see `Breaker`): calls
of the kind that failed, or, when there is no client, any. A node that takes no stores does not keep
engines from what it has.

A call may take as long as its `Limits` say, which begin when the work is handed over: what has
waited for a thread has that much less time.

Threads: all methods may be called from several threads; they block up to their limits, so call them
from worker threads only. away() and limits() are cheap and may be used anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import moonpool

from .._outage import Breaker, QuietLog, Ticket, is_away
from .options import Options

# Another engine wrote the block first, or is about to: nothing to tell anybody.
_WRITTEN_ELSEWHERE = ("ALREADY_EXISTS", "BEING_WRITTEN", "DUPLICATE_KEY")
# Reasons that say more than their code.
_SPEAKING = (*_WRITTEN_ELSEWHERE, "VALUE_TOO_LARGE")
# Of a refused connect: trying again does not help, though it is tried, as a person may.
_NEEDS_A_PERSON = ("INVALID_ARGUMENT", "FAILED_PRECONDITION")
# The kinds of calls, as the log says them, and what comes before all of them.
LOOK_UP, LOAD, STORE, CONNECT = "look up", "load", "store", "connect"

_MAX_KEYS = 8192  # of one call; the pool takes 16384


class Limits:
    """When a piece of work must have ended, on the pool's clock, and the means to end it sooner.

    Several calls may share one. Thread-safe.
    """

    def __init__(self, began: float, seconds: float) -> None:
        self.began = began
        self.until = began + seconds
        self.source = moonpool.CancelSource()
        self.cut = False

    def cut_off(self) -> None:
        """Ends the calls that are under way, and lets none begin."""
        self.cut = True
        self.source.cancel()


class Pool:
    """A moonpool.Client that is made when it is first needed and never raises.

    connect() makes the client; it runs on a worker thread, again after each failure, and should
    take no longer than a lookup.
    log(line) gets what a person should know.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        options: Options,
        *,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._options = options
        self._clock = clock
        # One for each kind of call: where a node hangs, lookups work and loads do not.
        self._breakers = {what: Breaker(clock, options.pause_first, options.pause_longest)
                          for what in (LOOK_UP, LOAD, STORE, CONNECT)}
        self._quiet = QuietLog(lambda _, line: log(line), clock)
        self._lock = threading.Lock()
        self._connected = threading.Condition(self._lock)  # or failed to
        self._connecting = False
        self._client: Any = None
        self._closed = False
        self._running: list[Limits] = []  # of the calls under way; several calls may share one

    def reach(self) -> bool:
        """Makes the client before anything needs it, so that the log says at start what is wrong;
        whether there is one now. Blocks for a lookup's time."""
        return self._open_client(CONNECT, self.limits(lookup=True)) is not None

    def away(self, *kinds: str) -> bool:
        """True while a call of one of these kinds would be in vain, and need not be made."""
        return self._closed or any(self._breakers[what].is_pausing for what in (CONNECT, *kinds))

    def now(self) -> float:
        """The clock that limits are on, in seconds."""
        return self._clock()

    def limits(self, *, lookup: bool = False) -> Limits:
        """Those of a load or store, or of a lookup, that is handed over now."""
        seconds = self._options.lookup_timeout if lookup else self._options.timeout
        return Limits(self._clock(), seconds)

    def exists(self, keys: Sequence[str], limits: Limits | None = None) -> list[bool]:
        """Which of the keys can be read now."""
        within = limits or self.limits(lookup=True)
        found: list[bool] = []
        for part in _parts(keys):

            def run(client: Any, left: float, part: Sequence[str] = part) -> Any:
                return client.exists_many(part, timeout=left, cancel=within.source)

            results = self._call(LOOK_UP, within, run)
            found += [r is True for r in results] if results else [False] * len(part)
        return found

    def match(self, keys: Sequence[str], limits: Limits | None = None) -> int:
        """How many keys of a chain can be read now, from the first one on without a gap."""
        within = limits or self.limits(lookup=True)
        matched = 0
        for part in _parts(keys):

            def run(client: Any, left: float, part: Sequence[str] = part) -> Any:
                return client.match_prefix(part, hold=self._options.hold, timeout=left,
                                           cancel=within.source)

            result = self._call(LOOK_UP, within, run)
            matched += result.matched if result else 0
            if result is None or result.matched < len(part):
                break
        return matched

    def load(
        self,
        keys: Sequence[str],
        targets: Sequence[Any],
        sizes: Sequence[int],
        limits: Limits | None = None,
    ) -> list[bool]:
        """Reads each object into its target; True where all `sizes[i]` bytes of it are there.

        A target whose entry is False may hold anything.
        """
        within = limits or self.limits()
        results = self._call(LOAD, within, lambda client, left: client.get_into_many(
            keys, targets, timeout=left, cancel=within.source))
        if not results:
            return [False] * len(keys)
        loaded = [not isinstance(r, Exception) and r == n for r, n in zip(results, sizes)]
        for key, result, size in zip(keys, results, sizes):
            if not isinstance(result, Exception) and result != size:
                self._quiet.say("size", f"moonpool: {key} has {result} bytes instead of {size}: "
                                        "another program writes into this namespace")
        return loaded

    def store(
        self,
        keys: Sequence[str],
        values: Sequence[Any],
        parents: Sequence[str],
        limits: Limits | None = None,
    ) -> list[bool]:
        """Stores what is not there yet; True where the object is in the pool by now.

        False where another engine is writing it: that may still fail.
        """
        within = limits or self.limits()
        results = self._call(STORE, within, lambda client, left: client.put_many(
            keys, values, parents=parents, replicas=self._options.replicas, min_replicas=1,
            wait_for_space=False, timeout=left, cancel=within.source))
        if not results:
            return [False] * len(keys)
        return [not isinstance(r, Exception) or _kind(r) == "ALREADY_EXISTS" for r in results]

    def close(self) -> None:
        """Ends running calls and closes the client. Idempotent; later calls are misses."""
        with self._lock:
            self._closed = True
            self._connected.notify_all()
            client, self._client = self._client, None
            running = list(self._running)
        for limits in running:
            limits.cut_off()
        if client is not None:
            try:
                client.close()
            except Exception as error:  # noqa: BLE001: nothing of the pool may reach the engine
                self._quiet.say("close", f"moonpool: cannot close the client: {error}")

    def _call(self, what: str, limits: Limits, run: Callable[[Any, float], Any]) -> Any:
        """The result of run(client, seconds left), or None when there is none worth having."""
        breaker = self._breakers[what]
        if self.away() or limits.cut or not (ticket := breaker.admit()):
            return None
        with self._lock:
            self._running.append(limits)
        answered = False
        try:
            client = self._open_client(what, limits)
            if client is None:
                return None
            left = limits.until - self._clock()
            if left <= 0:
                self._quiet.say("late", f"moonpool: cannot {what} in time: the pool or this host "
                                        "is slow, and others came first")
                return None
            result = run(client, left)
            answered = self._look_at(what, ticket, result, limits)
            return result
        except Exception as error:  # noqa: BLE001: nothing of the pool may reach the engine
            if not limits.cut:
                self._note(what, error, (breaker, ticket) if _is_outage(error) else None)
            return None
        finally:
            if not answered:
                breaker.learnt_nothing(ticket)  # but for what was noted
            else:
                self._say_if_back(breaker.succeeded(ticket))
            with self._lock:
                self._running.remove(limits)

    def _look_at(self, what: str, ticket: Ticket, result: Any, limits: Limits) -> bool:
        """Notes what is wrong in a call's result; whether it shows that the pool works."""
        errors = [r for r in result if isinstance(r, Exception)] if type(result) is list else []
        # An answer about each object (not there, not what was expected) is one: the pool works.
        outage = bool(errors) and len(errors) == len(result) and any(map(_is_outage, errors))
        for wrong in errors if not limits.cut else ():
            opens = (self._breakers[what], ticket) if outage and _is_outage(wrong) else None
            self._note(what, wrong, opens)
        return not outage

    def _open_client(self, what: str, limits: Limits) -> Any:
        """The client; None when there is none. One caller makes it, and the others wait for that:
        when it fails, they have failed, too."""
        breaker = self._breakers[CONNECT]
        with self._connected:
            waited = False
            while self._connecting and not self._closed and not limits.cut:
                waited = True
                if not self._connected.wait(max(0.0, limits.until - self._clock())):
                    return None
            if self._client is not None or self._closed or waited or limits.cut:
                return self._client
            if not (ticket := breaker.admit()):
                return None
            self._connecting = True
        client = None
        try:
            client = self._connect()  # not under the lock, which close() takes
            self._say_if_back(breaker.succeeded(ticket))
        except Exception as error:  # noqa: BLE001: nothing of the pool may reach the engine
            self._note(what, error, (breaker, ticket))
        with self._connected:
            self._connecting = False
            self._connected.notify_all()
            if not self._closed:
                self._client = client
                return client
        if client is not None:
            client.close()
        return None

    def _say_if_back(self, is_back: bool) -> None:
        if is_back:
            self._quiet.say("back", "moonpool: the pool is back")

    def _note(
        self, what: str, error: Exception, opens: tuple[Breaker, Ticket] | None
    ) -> None:
        """Logs an error by its kind, and opens a breaker: the call's own when all of it failed in
        an outage, that of all when there is no client for whatever reason."""
        kind = _kind(error)
        if self._closed or (kind in ("NOT_FOUND", *_WRITTEN_ELSEWHERE) and opens is None):
            return
        how_long = ""
        connecting = False
        if opens is not None:
            breaker, ticket = opens
            breaker.failed(ticket)
            connecting = breaker is self._breakers[CONNECT]
            how_long = f" for {breaker.seconds_left():.0f} s"
        line = f"moonpool: cannot {what}: {error}"
        if connecting and getattr(error, "code", "") in _NEEDS_A_PERSON:
            line += " (the engine goes on without the pool until somebody has corrected that)"
        elif connecting or (_is_outage(error) and what != STORE):
            line += f" (the engine goes on without the pool{how_long})"
        elif _is_outage(error):
            line += f" (nothing is stored{how_long}; lookups and loads are tried separately)"
        elif kind == "VALUE_TOO_LARGE":
            line = (f"moonpool: block not stored: {error.message}: the pool is smaller than a "
                    "block; give nodes more --dram, or make blocks smaller")
        elif kind == "RESOURCE_EXHAUSTED" and what == STORE:
            line = (f"moonpool: block not stored: {error} (add memory or nodes, or look at "
                    "`moonpool status` for what fills it)")
        self._quiet.say((what, kind), line)


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """The keys in lists that one call takes."""
    for at in range(0, len(keys), _MAX_KEYS):
        yield keys[at : at + _MAX_KEYS]


def _is_outage(error: Exception) -> bool:
    """Whether it tells of the pool, and not of an object or of what was asked."""
    return is_away(error) or not isinstance(error, moonpool.MoonpoolError)


def _kind(error: Exception) -> str:
    """The error's reason where that says more than its code."""
    reason = getattr(error, "reason", "")
    if reason in _SPEAKING:
        return reason
    return getattr(error, "code", "") or type(error).__name__


def probe(options: Options, log: Callable[[str], None], found: Callable[[], None]) -> None:
    """Logs, or calls found(), whether the master answers, where no namespace is known yet. Blocks
    as `Pool.reach` does."""
    pool = Pool(connector("default", "", options, log), options, log=log)  # which is always there
    if pool.reach():
        found()
    pool.close()


def connector(
    namespace: str, fingerprint: str, options: Options, log: Callable[[str], None]
) -> Callable[[], Any]:
    """What makes the client for a Pool: it does not wait for a master that is away."""

    def connect() -> Any:
        return moonpool.Client(
            options.masters,
            namespace=namespace,
            fingerprint=fingerprint,
            path=options.path,
            verify=options.verify,
            timeout=options.lookup_timeout,  # to connect; calls have their own
            wait_for_master=False,
            tcp_streams=options.tcp_streams,
            on_warning=lambda line: log(f"moonpool: {line}"),
        )

    return connect
