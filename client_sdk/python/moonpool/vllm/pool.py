"""The pool as an engine sees it: calls that never raise, and never take long when it is away.

    pool = Pool(connect, options)
    found = pool.exists(["g0/3f0a", "g0/77c1"])       # [True, False]; all False when it is away

What cannot be had is a miss; what cannot be stored is not stored. The reason goes to the log, one
line per kind and half minute. After an outage nothing is tried for a while (see `Breaker`).

Threads: all methods may be called from several threads; they block up to the options' timeouts, so
call them from worker threads only. `away` is cheap and may be read anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import moonpool

from .health import Breaker, Quiet
from .options import Options

# The pool cannot be reached, or not in time.
_OUTAGES = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
# Another engine wrote the block first, or is about to have done so: as good as stored.
_WRITTEN_ELSEWHERE = ("ALREADY_EXISTS", "BEING_WRITTEN", "DUPLICATE_KEY")

_MAX_KEYS = 8192  # of one call; the pool takes 16384


class Pool:
    """A moonpool.Client that is made when it is first needed and never raises.

    connect() makes the client; it runs on a worker thread, again after each failure.
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
        # One for each kind of call: where a node hangs, lookups work and loads do not.
        self._breakers = {what: Breaker(clock, options.backoff, options.max_backoff)
                          for what in ("look up", "load", "store")}
        self._quiet = Quiet(log, clock)
        self._lock = threading.Lock()
        self._client: Any = None
        self._closed = False
        self._cancel = moonpool.CancelSource()

    @property
    def away(self) -> bool:
        """True while calls would be in vain: they fail at once then, and need not be made."""
        return self._closed or any(breaker.open for breaker in self._breakers.values())

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Which of the keys can be read now."""
        found: list[bool] = []
        for part in _parts(keys):

            def run(client: Any, part: Sequence[str] = part) -> Any:
                return client.exists_many(part, timeout=self._options.lookup_timeout,
                                          cancel=self._cancel)

            results = self._call("look up", run)
            found += [r is True for r in results] if results else [False] * len(part)
        return found

    def match(self, keys: Sequence[str]) -> int:
        """How many keys of a chain can be read now, from the first one on without a gap."""
        matched = 0
        for part in _parts(keys):

            def run(client: Any, part: Sequence[str] = part) -> Any:
                return client.match_prefix(part, hold=self._options.hold, cancel=self._cancel,
                                           timeout=self._options.lookup_timeout)

            result = self._call("look up", run)
            of_part = result.matched if result else 0
            matched += of_part
            if of_part < len(part):
                break
        return matched

    def load(self, keys: Sequence[str], targets: Sequence[Any], sizes: Sequence[int]) -> list[bool]:
        """Reads each object into its target; True where all `sizes[i]` bytes of it are there.

        A target whose entry is False may hold anything.
        """

        def run(client: Any) -> Any:
            return client.get_into_many(keys, targets, timeout=self._options.timeout,
                                        cancel=self._cancel)

        results = self._call("load", run)
        if not results:
            return [False] * len(keys)
        loaded = [not isinstance(r, Exception) and r == n for r, n in zip(results, sizes)]
        for key, result, size in zip(keys, results, sizes):
            if not isinstance(result, Exception) and result != size:
                self._quiet.say("size", f"moonpool: {key} has {result} bytes instead of {size}: "
                                        "another program writes into this namespace")
        return loaded

    def store(
        self, keys: Sequence[str], values: Sequence[Any], parents: Sequence[str]
    ) -> list[bool]:
        """Stores what is not there yet; True where the object is in the pool, or will be."""

        def run(client: Any) -> Any:
            return client.put_many(
                keys, values, parents=parents, replicas=self._options.replicas, min_replicas=1,
                wait_for_space=False, timeout=self._options.timeout, cancel=self._cancel)

        results = self._call("store", run)
        if not results:
            return [False] * len(keys)
        return [not isinstance(r, Exception) or _kind(r) in _WRITTEN_ELSEWHERE for r in results]

    def close(self) -> None:
        """Ends running calls and closes the client. Idempotent; later calls are misses."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        self._cancel.cancel()
        if client is not None:
            client.close()

    def _call(self, what: str, run: Callable[[Any], Any]) -> Any:
        """The result of run(client), or None when there is none worth having."""
        if self.away:
            return None
        try:
            result = run(self._open_client())
        except Exception as error:  # noqa: BLE001: nothing of the pool may reach the engine
            self._note(what, error, whole=True)
            return None
        errors = [r for r in result if isinstance(r, Exception)] if type(result) is list else []
        for error in errors:
            self._note(what, error, whole=len(errors) == len(result))
        if (not errors or len(errors) < len(result)) and self._breakers[what].worked():
            self._quiet.say("back", "moonpool: the pool is back")
        return result

    def _open_client(self) -> Any:
        with self._lock:
            if self._closed:
                raise moonpool.MoonpoolError("closed")
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _note(self, what: str, error: Exception, *, whole: bool) -> None:
        """Logs an error by its kind; opens the breaker when all of a call failed in an outage."""
        kind = _kind(error)
        if self._closed or kind in ("NOT_FOUND", *_WRITTEN_ELSEWHERE):
            return
        if kind in _OUTAGES or not isinstance(error, moonpool.MoonpoolError):
            pause = self._breakers[what].failed() if whole else 0.0
            how_long = f" for {pause:.0f} s" if pause else ""
            self._quiet.say(kind, f"moonpool: cannot {what}: {error}. The engine goes on without "
                                  f"the pool{how_long}")
        elif kind == "RESOURCE_EXHAUSTED" and what == "store":
            self._quiet.say(kind, f"moonpool: block not stored: {error}. Add memory or nodes, or "
                                  "look at `moonpool status` for what fills it")
        else:
            if whole and kind in ("FAILED_PRECONDITION", "INVALID_ARGUMENT"):
                self._breakers[what].failed()
            self._quiet.say(kind, f"moonpool: cannot {what}: {error}")


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """The keys in lists that one call takes."""
    for at in range(0, len(keys), _MAX_KEYS):
        yield keys[at : at + _MAX_KEYS]


def _kind(error: Exception) -> str:
    """The error's reason where that says more than its code."""
    reason = getattr(error, "reason", "")
    if reason in _WRITTEN_ELSEWHERE:
        return reason
    return getattr(error, "code", "") or type(error).__name__


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
            timeout=options.timeout,
            wait_for_master=False,
            tcp_streams=options.tcp_streams,
            on_warning=lambda line: log(f"moonpool: {line}"),
        )

    return connect
