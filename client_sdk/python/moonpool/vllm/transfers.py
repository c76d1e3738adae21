"""Jobs that move blocks between an engine's memory and the pool, in the background.

    transfers.load(7, keys, targets, sizes)     # returns at once
    for done in transfers.finished(): ...       # Done(tag=7, load=True, ok=[True, False], ...)

Every job ends exactly once with a Done, whatever happens: refused, failed, cut off. When
it has, nothing touches the job's memory any more. It has the options' timeout from its submission
on, with the time that its slices wait for a thread: what is not moved by then is not moved.

Threads: the methods are for one thread (the engine's), which none of them blocks but drain() and
close().
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .pool import LOAD, STORE, Limits, Pool
from .workers import Workers


class Sliceable(Protocol):
    """Memory of objects, of which parts are taken as lists. A list of buffers is one."""

    def __getitem__(self, part: slice, /) -> list[Any]: ...


@dataclass
class Done:
    """How a job ended. `ok` is parallel to its keys; `seconds` from submission to end."""

    tag: Any
    load: bool
    ok: list[bool]
    moved_bytes: int
    seconds: float


class _Job:
    """A job under way: cut into slices, each of which fills in its part of `ok`."""

    def __init__(self, tag: Any, load: bool, count: int, limits: Limits) -> None:
        self.tag = tag
        self.load = load
        self.ok = [False] * count
        self.limits = limits
        self.moved_bytes = 0
        self.slices_left = 0


class Transfers:
    """Loads and stores of whole blocks, on the threads of `workers`."""

    def __init__(self, pool: Pool, workers: Workers, *, slice_bytes: int) -> None:
        self._pool = pool
        self._workers = workers
        self._slice_bytes = slice_bytes
        self._done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._idle = threading.Condition()  # guards _jobs, and their counts
        self._jobs: set[_Job] = set()

    @property
    def running(self) -> int:
        """Jobs that were submitted and have not ended."""
        return len(self._jobs)

    def load(
        self, tag: Any, keys: Sequence[str], targets: Sliceable, sizes: Sequence[int]
    ) -> None:
        """Reads objects into targets. Borrowed until the job is done."""

        job = _Job(tag, True, len(keys), self._pool.limits())

        def run(at: int, end: int) -> list[bool]:
            return self._pool.load(keys[at:end], targets[at:end], sizes[at:end], job.limits)

        self._start(job, sizes, run)

    def store(
        self,
        tag: Any,
        keys: Sequence[str],
        values: Sliceable,
        parents: Sequence[str],
        sizes: Sequence[int],
    ) -> None:
        """Stores values. Borrowed until the job is done."""

        job = _Job(tag, False, len(keys), self._pool.limits())

        def run(at: int, end: int) -> list[bool]:
            return self._pool.store(keys[at:end], values[at:end], parents[at:end], job.limits)

        self._start(job, sizes, run)

    def finished(self) -> list[Done]:
        """The jobs that have ended since the last call."""
        ended: list[Done] = []
        while True:
            try:
                ended.append(self._done.get_nowait())
            except queue.Empty:
                return ended

    def cut_off(self) -> None:
        """Ends all jobs, unfinished: none begins another slice, and running calls are cancelled."""
        with self._idle:
            jobs = list(self._jobs)
        for job in jobs:
            job.limits.cut_off()

    def drain(self) -> None:
        """Blocks until all jobs have ended; finished() has their results.

        At most about as long as their timeout; after cut_off() shortly.
        """
        with self._idle:
            self._idle.wait_for(lambda: not self._jobs)

    def close(self) -> None:
        """Cuts off what is under way and ends the threads. The pool is closed, too."""
        self.cut_off()
        self._pool.close()
        self._workers.close()

    def _start(
        self, job: _Job, sizes: Sequence[int], run: Callable[[int, int], list[bool]]
    ) -> None:
        in_vain = self._pool.away(LOAD if job.load else STORE)
        slices = [] if in_vain else cut(sizes, self._slice_bytes)
        job.slices_left = len(slices) + 1  # one for this function: no slice ends the job before it
        with self._idle:
            self._jobs.add(job)
        for at, end in slices:

            def task(at: int = at, end: int = end) -> None:
                ok: list[bool] = []
                try:
                    ok = run(at, end)
                finally:
                    self._end_slice(job, at, ok, sizes)

            if not self._workers.submit(task, urgent=job.load):
                self._end_slice(job, at, [], sizes)
        self._end_slice(job, 0, [], sizes)

    def _end_slice(self, job: _Job, at: int, ok: list[bool], sizes: Sequence[int]) -> None:
        with self._idle:
            job.ok[at : at + len(ok)] = ok
            job.moved_bytes += sum(n for n, moved in zip(sizes[at : at + len(ok)], ok) if moved)
            job.slices_left -= 1
            if job.slices_left:
                return
            seconds = self._pool.now() - job.limits.began
            self._done.put(Done(job.tag, job.load, job.ok, job.moved_bytes, seconds))
            self._jobs.remove(job)
            if not self._jobs:
                self._idle.notify_all()


def cut(sizes: Sequence[int], slice_bytes: int) -> list[tuple[int, int]]:
    """Ranges [begin, end) that cover all sizes, each of about slice_bytes or of one object."""
    ranges: list[tuple[int, int]] = []
    begin = total = 0
    for index, size in enumerate(sizes):
        if index > begin and total + size > slice_bytes:
            ranges.append((begin, index))
            begin, total = index, 0
        total += size
    if begin < len(sizes):
        ranges.append((begin, len(sizes)))
    return ranges
