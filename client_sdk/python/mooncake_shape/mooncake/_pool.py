"""A Moonpool as the store sees it: batches of keys in, Mooncake's numbers out."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import moonpool
from moonpool._outage import QuietLog
from mooncake._careful import NOT_TRIED, CarefulClient
from mooncake._codes import ErrorCode, code_of
from mooncake._memory import BufferHandle
from mooncake._patience import Patience, clock
from mooncake._staging import Staging

_log = logging.getLogger("mooncake.store")
_T = TypeVar("_T")

_BATCH_MAX = 16384  # keys of one call to a Moonpool
_PAGE_KEYS = 10000
# How long a put waits for another writer of its key: longer than any writer that lives takes.
_WRITER_PATIENCE = 2.0
_HEALTH_PATIENCE = 2.0
_BUFFER_ROUNDS = 3  # of an object that is replaced by a larger one again and again


class Pool:
    """Calls never raise a MoonpoolError: each key has a number or value of its own. Thread-safe."""

    def __init__(self, client: moonpool.Client, timeout: float, patience: Patience = Patience(),
                 staging_bytes: int = 0) -> None:
        """``staging_bytes``: of the copies from which a caller of some patience is served."""
        self._client = CarefulClient(client)
        self._timeout = timeout
        self._patience = patience
        self._staging = Staging(staging_bytes)
        self._quiet = QuietLog(lambda level, line: _log.log(level, "%s", line), clock)

    def close(self) -> None:
        self._client.close()

    def is_reachable(self) -> bool:
        try:
            self._client.exists("health_check", timeout=min(self._timeout, _HEALTH_PATIENCE))
        except moonpool.MoonpoolError as error:
            self._complain("health_check", error)
            return False
        return True

    def put(self, keys: Sequence[str], values: Sequence[Any], replicas: int) -> list[int]:
        """0: readable by everybody, now or before. A value is a buffer or a list of buffers.

        -901 for what a caller of some patience may have overwritten before it was copied.
        """
        if math.isinf(self._patience.put):
            return self._put(keys, values, replicas)
        deadline = self._patience.put_deadline()
        codes: list[int] = []
        for part in self._staging.rounds(values):
            try:
                with self._staging.copies(values[part], deadline) as copies:
                    if copies is None:
                        raise self._too_late("put", self._patience.put)
                    codes += self._put(keys[part], copies, replicas)
            except moonpool.MoonpoolError as error:
                codes += [self._number("put", error, int)] * len(keys[part])
        return codes

    def _put(self, keys: Sequence[str], values: Sequence[Any], replicas: int) -> list[int]:
        def put_batch(batch: Sequence[str], stored: Sequence[Any]) -> list[Any]:
            deadline = time.monotonic() + self._timeout
            outcomes = self._put_once(batch, stored, replicas)
            # Another client is writing the key. Not to be called stored before it is; the others of
            # the batch have not waited for it.
            busy = [i for i, outcome in enumerate(outcomes) if _reason(outcome) == "BEING_WRITTEN"]
            left = min(deadline - time.monotonic(), _WRITER_PATIENCE)
            if busy and left > 0:
                again = self._put_once(
                    [batch[i] for i in busy], [stored[i] for i in busy], replicas,
                    wait_for_writer=True, timeout=left)
                for i, outcome in zip(busy, again):
                    outcomes[i] = outcome
            return _as_the_first_of_each_key(batch, outcomes)

        return [self._number("put", outcome, lambda _: 0)
                for outcome in self._in_batches(put_batch, keys, values)]

    def _put_once(self, keys: Sequence[str], values: Sequence[Any], replicas: int,
                  **options: Any) -> list[Any]:
        return self._client.put_many(keys, values, replicas=replicas, min_replicas=1,
                                     wait_for_space=False, **options)

    def get_into(self, keys: Sequence[str], targets: Sequence[Any]) -> list[int]:
        """Bytes read, or why not. A target is a buffer or a list of buffers.

        Ends while a caller of some patience still waits: -901 for what could not be read by then.
        """
        deadline = self._patience.get_deadline()

        def get_batch(batch: Sequence[str], into: Sequence[Any]) -> list[Any]:
            left = min(self._timeout, deadline - clock())
            if left <= 0:
                raise self._too_late("get", self._patience.get)
            return self._client.get_into_many(batch, into, timeout=left)

        outcomes = self._in_batches(get_batch, keys, targets)
        return [self._number("get_into", outcome, int) for outcome in outcomes]

    def get_whole_into(self, keys: Sequence[str], targets: Sequence[Any],
                       sizes: Sequence[int]) -> list[int]:
        """As get_into; -800 for an object that does not fill its target's ``sizes[i]`` bytes."""
        read = self.get_into(keys, targets)
        for i, (nbytes, size) in enumerate(zip(read, sizes)):
            if 0 <= nbytes < size:
                self._complain("get_into", moonpool.DataLoss(
                    f"an object of {nbytes} bytes was read into {size}", code="DATA_LOSS",
                    reason="SHORT_OBJECT", key=keys[i],
                    hint="engines with another layout under the same keys need another namespace; "
                         "for callers that look at the number there is `short_reads`"))
                read[i] = int(ErrorCode.TRANSFER_FAIL)
        return read

    @staticmethod
    def _too_late(call: str, patience: float) -> moonpool.DeadlineExceeded:
        return moonpool.DeadlineExceeded(
            f"the caller waits {patience:g} s and may be using its memory again; the {call} began "
            "too late", code="DEADLINE_EXCEEDED", reason="CALLER_GONE",
            hint="LMCache: a longer transfer_timeout, or fewer puts at a time")

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        outcomes = self._in_batches(self._client.get_many, keys)
        return [self._value("get", outcome) for outcome in outcomes]

    def get_buffers(self, keys: Sequence[str]) -> list[BufferHandle | None]:
        handles: list[BufferHandle | None] = [None] * len(keys)
        wanted = list(range(len(keys)))
        for _ in range(_BUFFER_ROUNDS):
            described = self.describe([keys[i] for i in wanted])
            there = [(i, BufferHandle(found.nbytes))
                     for i, found in zip(wanted, described) if found is not None]
            outcomes = self._in_batches(self._client.get_into_many, [keys[i] for i, _ in there],
                                        [handle for _, handle in there])
            wanted = []
            for (i, handle), outcome in zip(there, outcomes):
                if isinstance(outcome, int):
                    del handle[outcome:]  # it was replaced by a shorter one
                    handles[i] = handle
                elif _reason(outcome) == "BUFFER_TOO_SHORT":
                    wanted.append(i)
                else:
                    self._complain("get_buffer", outcome)
            if not wanted:
                break
        return handles

    def exists(self, keys: Sequence[str]) -> list[int]:
        """1, 0, or why nobody knows. What cannot be a key does not exist."""
        outcomes = self._in_batches(self._client.exists_many, keys)
        return [0 if _reason(outcome) in ("KEY_EMPTY", "KEY_TOO_LONG")
                else self._number("is_exist", outcome, int) for outcome in outcomes]

    def sizes(self, keys: Sequence[str]) -> list[int]:
        outcomes = self._in_batches(self._client.describe_many, keys)
        return [self._number("get_size", outcome, lambda found: found.nbytes)
                for outcome in outcomes]

    def describe(self, keys: Sequence[str]) -> list[moonpool.Description | None]:
        outcomes = self._in_batches(self._client.describe_many, keys)
        return [self._value("get_replica_desc", outcome) for outcome in outcomes]

    def remove(self, keys: Sequence[str]) -> list[int]:
        """0, or why not: -704 where there was nothing to remove."""
        outcomes = self._in_batches(self._client.remove_many, keys)
        return [self._number("remove", outcome,
                             lambda was: 0 if was else int(ErrorCode.OBJECT_NOT_FOUND))
                for outcome in outcomes]

    def remove_where(self, pattern: re.Pattern[str] | None) -> int:
        """How many keys were removed, of those in which the pattern is found; None: of all.

        The number of an error when one may be left that was there all the time.
        """
        removed = 0
        after = ""
        while True:
            try:
                page = self._client.list_keys(limit=_PAGE_KEYS, after=after)
            except moonpool.MoonpoolError as error:
                return self._number("list_keys", error, int)
            codes = self.remove([key for key in page.keys
                                 if pattern is None or pattern.search(_text(key))])
            removed += codes.count(0)
            left = [code for code in codes if code not in (0, ErrorCode.OBJECT_NOT_FOUND)]
            if left:
                return left[0]
            after = page.next
            if not after:
                return removed

    def _in_batches(self, call: Callable[..., list[Any]], keys: Sequence[Any],
                    *columns: Sequence[Any]) -> list[Any]:
        """`call(keys, *columns)`, in as many calls as it takes. One that raises failed for all."""
        outcomes: list[Any] = []
        for begin in range(0, len(keys), _BATCH_MAX):
            part = slice(begin, begin + _BATCH_MAX)
            batch = keys[part]
            try:
                outcomes += call(batch, *(column[part] for column in columns))
            except moonpool.MoonpoolError as error:
                outcomes += [error] * len(batch)
        return outcomes

    def _complain(self, call: str, error: moonpool.MoonpoolError) -> None:
        """For what numbers do not explain. Misses are no failures, and those that were not tried
        follow from one that was."""
        if isinstance(error, moonpool.Miss) and error.reason != "NAMESPACE_UNKNOWN":
            return
        if error.reason != NOT_TRIED:
            self._quiet.say((call, error.code, error.reason), f"{call}: {error}")

    def _number(self, call: str, outcome: Any, number: Callable[[Any], int]) -> int:
        if isinstance(outcome, moonpool.MoonpoolError):
            self._complain(call, outcome)
            return code_of(outcome)
        return number(outcome)

    def _value(self, call: str, outcome: _T | moonpool.MoonpoolError) -> _T | None:
        if isinstance(outcome, moonpool.MoonpoolError):
            self._complain(call, outcome)
            return None
        return outcome


def _reason(outcome: Any) -> str:
    return outcome.reason if isinstance(outcome, moonpool.MoonpoolError) else ""


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode(errors="surrogateescape")


def _as_the_first_of_each_key(keys: Sequence[str], outcomes: list[Any]) -> list[Any]:
    """A key that stands twice in a batch is stored once: what holds for the first holds for all."""
    first: dict[str, Any] = {}
    for key, outcome in zip(keys, outcomes):
        first.setdefault(key, outcome)
    return [first[key] if _reason(outcome) == "DUPLICATE_KEY" else outcome
            for key, outcome in zip(keys, outcomes)]
