"""All calls to the pool: bounded, counted, logged with restraint, and never an exception.

`PoolIo` is used by SGLang's storage threads (prefetch, prefetch I/O, backup), each of which has at
most one call in flight. It is safe with any number of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from moonpool._outage import Breaker, QuietLog, Ticket
from moonpool.sglang import outcome
from moonpool.sglang.options import Options
from moonpool.sglang.outcome import Outcome

logger = logging.getLogger(__name__)

# The pool refuses larger batches. Well under it, so that several ranks do not send them at once.
KEYS_MAX = 4096

_SECONDS_MIN = 0.001  # a timeout of 0 would be none


class PoolIo:
    """One client of the pool, seen as SGLang sees storage: what is there, read, write."""

    def __init__(
        self,
        connect: Callable[[float], Any],
        options: Options,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`connect(timeout)` makes the moonpool.Client, or raises; `close` closes it.

        It is called by `attach`, and by later calls while there is no client yet.
        """
        self._connect = connect
        self._client: Any = None
        self._connecting = threading.Lock()
        self._options = options
        self._clock = clock
        self._quiet = QuietLog(
            lambda level, line: logger.log(level, "moonpool: %s", line), clock, options.log_every
        )
        # A pool that is too slow for writes may still be good for reads, and the other way round.
        self._reads = Breaker(clock, options.pause_first, options.pause_longest)
        self._writes = Breaker(clock, options.pause_first, options.pause_longest)
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._summary_due = clock() + options.summary_every
        self._closed = False

    def attach(self, timeout: float) -> None:
        """Connects; raises what `connect` raises. Without it, the first call connects."""
        self._connected(timeout)

    def _connected(self, timeout: float) -> Any:
        if self._client is not None:
            return self._client
        if not self._connecting.acquire(timeout=timeout):
            raise TimeoutError("another thread is still connecting")
        try:
            if self._client is None:
                client = self._connect(timeout)
                if self._closed:
                    client.close()
                    raise ConnectionError("closed while it connected")
                self._client = client
            return self._client
        finally:
            self._connecting.release()

    # Deadlines of what begins now, by the clock that was given.

    def query_deadline(self) -> float:
        return self._clock() + self._options.lookup_timeout

    def read_deadline(self) -> float:
        return self._clock() + self._options.load_timeout

    def write_deadline(self) -> float:
        return self._clock() + self._options.store_timeout

    # What is there.

    def match(self, keys: Sequence[str], deadline: float) -> int:
        """Leading keys that are readable now; they are held for the read that follows."""
        matched = 0
        for start in range(0, len(keys), KEYS_MAX):
            batch = list(keys[start : start + KEYS_MAX])
            found = self._call(
                "query",
                self._reads,
                deadline,
                lambda client, left: self._match_batch(client, batch, left),
                0,
            )
            matched += found
            if found < len(batch):
                break
        self._count(queried=len(keys), found=matched)
        self._summarise()
        return matched

    def _match_batch(self, client: Any, keys: list[str], timeout: float) -> tuple[int, Outcome]:
        match = client.match_prefix(keys, hold=self._options.hold, timeout=timeout)
        if match.matched < len(keys) and match.miss is not None:
            self._noted("query", match.miss, outcome.of_raised(match.miss))
        return match.matched, Outcome.DONE

    def found(self, keys: Sequence[str], deadline: float) -> list[bool]:
        """Which of the keys are there; False also where the pool cannot say."""
        answers: list[bool] = []
        for start in range(0, len(keys), KEYS_MAX):
            batch = list(keys[start : start + KEYS_MAX])
            answers += self._call(
                "query",
                self._reads,
                deadline,
                lambda client, left: self._found_batch(client, batch, left),
                [False] * len(batch),
            )
        return answers

    def _found_batch(
        self, client: Any, keys: list[str], timeout: float
    ) -> tuple[list[bool], Outcome]:
        answers = client.exists_many(keys, timeout=timeout)
        outcomes = [self._noted("query", a, outcome.of_exists(a)) for a in answers]
        return [o is Outcome.DONE for o in outcomes], _of_call(outcomes)

    # Bytes.

    def read(
        self,
        keys: Sequence[str],
        targets: Sequence[Any],
        nbytes: Sequence[int],
        deadline: float,
    ) -> list[bool]:
        """Fills `targets`; an object that is not exactly `nbytes` long is a failure.

        In pieces of about chunk_bytes, in order, until one fails or the time is over: SGLang uses
        what is whole from the front. The contents of a target that failed are undefined.
        """
        done: list[bool] = []
        for start, end in _chunks(nbytes, self._options.chunk_bytes):
            span = slice(start, end)
            done += self._call(
                "get",
                self._reads,
                deadline,
                lambda client, left: self._read_batch(
                    client, keys[span], targets[span], nbytes[span], left
                ),
                [False] * (end - start),
                heard_of=bool(done),
            )
            if not all(done[start:]):
                break
        done += [False] * (len(keys) - len(done))
        self._count(read=sum(done), read_failed=done.count(False))
        self._count(read_bytes=sum(n for n, ok in zip(nbytes, done) if ok))
        return done

    def _read_batch(
        self,
        client: Any,
        keys: Sequence[str],
        targets: Sequence[Any],
        nbytes: Sequence[int],
        timeout: float,
    ) -> tuple[list[bool], Outcome]:
        answers = client.get_into_many(list(keys), list(targets), timeout=timeout)
        outcomes = [
            self._noted("get", a, outcome.of_get(a, n)) for a, n in zip(answers, nbytes)
        ]
        return [o is Outcome.DONE for o in outcomes], _of_call(outcomes)

    def write(
        self,
        keys: Sequence[str],
        sources: Sequence[Any],
        nbytes: Sequence[int],
        parents: Sequence[str],
        deadline: float,
    ) -> list[bool]:
        """Stores; True is also what is there already, or what the pool does not take (outcome.py).

        In pieces as in `read`, until one fails: SGLang gives up what is behind a failure.
        """
        done: list[bool] = []
        for start, end in _chunks(nbytes, self._options.chunk_bytes):
            span = slice(start, end)
            done += self._call(
                "put",
                self._writes,
                deadline,
                lambda client, left: self._write_batch(
                    client, keys[span], sources[span], parents[span], left
                ),
                [False] * (end - start),
                heard_of=bool(done),
            )
            if not all(done[start:]):
                break
        done += [False] * (len(keys) - len(done))
        self._count(written=sum(done), write_failed=done.count(False))
        self._count(written_bytes=sum(n for n, ok in zip(nbytes, done) if ok))
        self._summarise()
        return done

    def _write_batch(
        self,
        client: Any,
        keys: Sequence[str],
        sources: Sequence[Any],
        parents: Sequence[str],
        timeout: float,
    ) -> tuple[list[bool], Outcome]:
        options = self._options
        answers = client.put_many(
            list(keys),
            list(sources),
            parents=list(parents),
            replicas=options.replicas,
            min_replicas=options.min_replicas,
            wait_for_space=options.wait_for_space,
            timeout=timeout,
        )
        outcomes = [self._noted("put", a, outcome.of_put(a)) for a in answers]
        self._count(already_there=sum(a is False for a in answers))
        self._count(dropped=outcomes.count(Outcome.DROPPED))
        return [o in (Outcome.DONE, Outcome.DROPPED) for o in outcomes], _of_call(outcomes)

    def remove(self, keys: Sequence[str]) -> bool:
        """True when none of the keys is there any more."""
        gone = True
        deadline = self.write_deadline()
        for start in range(0, len(keys), KEYS_MAX):
            batch = list(keys[start : start + KEYS_MAX])
            gone &= self._call(
                "remove",
                self._writes,
                deadline,
                lambda client, left: self._remove_batch(client, batch, left),
                False,
            )
        return gone

    def _remove_batch(self, client: Any, keys: list[str], timeout: float) -> tuple[bool, Outcome]:
        answers = client.remove_many(keys, timeout=timeout)
        outcomes = [self._noted("remove", a, outcome.of_exists(a)) for a in answers]
        settled = all(o in (Outcome.DONE, Outcome.MISSED) for o in outcomes)
        return settled, _of_call(outcomes)

    # Around every call.

    def _call(
        self,
        op: str,
        breaker: Breaker,
        deadline: float,
        call: Callable[[Any, float], tuple[Any, Outcome]],
        otherwise: Any,
        *,
        heard_of: bool = False,
    ) -> Any:
        """`call(client, seconds left)`, or `otherwise` when it cannot go or fails. Never raises.

        `heard_of`: the pool has answered a moment ago, in the same batch. Then running out of time
        says that the batch is large, and not that the pool is away.
        """
        left = deadline - self._clock()
        if self._closed or left <= 0 or not (ticket := breaker.admit()):
            self._count(**{f"{op}_not_tried": 1})
            return otherwise
        answered = heard_of
        retry_after = 0.0
        try:
            client = self._connected(left)
            result, overall = call(client, max(deadline - self._clock(), _SECONDS_MIN))
            answered |= overall.answered
            return result
        except Exception as error:  # SGLang's thread must live: a miss, whatever it is
            noted = self._noted(op, error, outcome.of_raised(error))
            answered |= noted.answered and self._client is not None
            retry_after = float(getattr(error, "retry_after", 0.0) or 0.0)
            return otherwise
        finally:
            self._settle(op, breaker, ticket, answered, retry_after)

    def _settle(
        self, op: str, breaker: Breaker, ticket: Ticket, answered: bool, retry_after: float
    ) -> None:
        if answered:
            if breaker.succeeded(ticket):
                logger.info("moonpool: %s: the pool can be used again", op)
        elif breaker.failed(ticket, retry_after):
            logger.warning(
                "moonpool: %s: the pool cannot be used; these calls miss at once for %.1f s, then "
                "one is tried, and so on with pauses of up to %.1f s",
                op, self._options.pause_first, self._options.pause_longest,
            )

    def _noted(self, op: str, answer: Any, result: Outcome) -> Outcome:
        """Counts and logs what one key came to."""
        if result is Outcome.DONE:
            return result
        code, reason = outcome.kind(answer)
        self._count(**{f"{op}_{(reason or code).lower()}": 1})
        if result is Outcome.MISSED:
            return result  # the ordinary case: counted, not logged
        level = logging.ERROR if result is Outcome.WRONG else logging.WARNING
        self._quiet.say((op, code, reason), f"{op} failed: {outcome.explain(answer)}", level)
        return result

    def complain(self, kind: str, level: int, message: str) -> None:
        """Logs, with restraint, what went wrong outside of a call."""
        self._count(**{kind: 1})
        self._quiet.say(kind, message, level)

    def close(self) -> None:
        """Every later call misses. Waits for calls that run. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._client is not None:
                self._client.close()
        except Exception as error:
            self.complain("close_failed", logging.WARNING, f"close: {outcome.explain(error)}")

    # Figures.

    def counts(self) -> dict[str, int]:
        """Since attach, in objects: queried, found, read, written, and each kind of trouble."""
        with self._lock:
            return dict(self._counts)

    def _count(self, **amounts: int) -> None:
        with self._lock:
            for name, amount in amounts.items():
                if amount:
                    self._counts[name] += amount

    def _summarise(self) -> None:
        with self._lock:
            now = self._clock()
            if not self._options.summary_every or now < self._summary_due:
                return
            self._summary_due = now + self._options.summary_every
            c = self._counts
        logger.info(
            "moonpool: since attach: %d of %d queried objects found, "
            "%d read (%.1f MiB, %d failed), "
            "%d stored (%.1f MiB, %d were there, %d dropped, %d failed)",
            c["found"], c["queried"], c["read"], c["read_bytes"] / 2**20, c["read_failed"],
            c["written"], c["written_bytes"] / 2**20, c["already_there"], c["dropped"],
            c["write_failed"],
        )


def _of_call(outcomes: Sequence[Outcome]) -> Outcome:
    """Of a whole batch: AWAY when nobody answered for any of its keys."""
    if outcomes and all(o is Outcome.AWAY for o in outcomes):
        return Outcome.AWAY
    return Outcome.DONE


def _chunks(nbytes: Sequence[int], chunk_bytes: int) -> list[tuple[int, int]]:
    """[start, end) of runs of about `chunk_bytes`, each of at least one and at most KEYS_MAX."""
    runs: list[tuple[int, int]] = []
    start, held = 0, 0
    for at, size in enumerate(nbytes):
        if at > start and (held + size > chunk_bytes or at - start >= KEYS_MAX):
            runs.append((start, at))
            start, held = at, 0
        held += size
    if start < len(nbytes):
        runs.append((start, len(nbytes)))
    return runs
