"""The tier without vLLM: rows of host memory to and from the pool, looked up by block hash.

All methods are for the scheduler's thread, and none of them blocks but drain(), cut_off(),
leave() and close().
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .layout import block_key, group_part
from .lookups import ExistsTable
from .options import Options
from .pool import Pool
from .transfers import Done, Transfers
from .workers import Workers

_GROUP_BYTES = 4  # at the end of an offload key: the KV cache group, big endian


def name_of(key: bytes) -> str:
    """The pool's key for vLLM's offload key (block hash, then 4 bytes of group index)."""
    return block_key(
        group_part(int.from_bytes(key[-_GROUP_BYTES:], "big")), bytes(key[:-_GROUP_BYTES])
    )


class TierCore:
    """Chunks in the rows of `view`, shape (chunks, row bytes), as objects in the pool.

    Jobs are numbered by the caller. While one runs, its rows must stay as they are (store), or
    belong to it alone (load); `finished` tells when it has ended. A job whose load() or store()
    raised has not begun.
    """

    def __init__(self, view: memoryview, pool: Pool, options: Options) -> None:
        if view.ndim != 2 or not view.c_contiguous:
            raise ValueError("moonpool: the primary tier's memory must be rows without gaps")
        self._row_bytes = view.strides[0] if view.strides else 0
        self._flat = view.cast("B")  # memoryviews cannot be cut into rows while they have any
        self._lookup_worker = Workers("moonpool-lookup", 1, options.queue)
        self._exists = ExistsTable(pool, self._lookup_worker, name_of)
        self._transfers = Transfers(
            pool,
            Workers("moonpool-move", options.threads, options.queue),
            slice_bytes=options.slice_bytes,
        )
        self._keys: dict[int, list[bytes]] = {}  # of jobs under way
        self._pool = pool
        self._left = False
        # Of each request and group: the last chunk stored, and where in the request it ends.
        self._last: dict[str, dict[bytes, tuple[int, bytes]]] = {}

    def first(self, task: Callable[[], None]) -> None:
        """Runs the task on the thread of lookups, before those that come later."""
        self._lookup_worker.submit(task, urgent=True)

    @property
    def running(self) -> int:
        """Jobs that have not ended."""
        return self._transfers.running

    def lookup(self, key: bytes, request: str) -> bool | None:
        """Whether the chunk is in the pool; None: known after the next end_step()."""
        return False if self._left else self._exists.ask(key, request)

    def end_step(self) -> None:
        """Sends this step's lookups."""
        self._exists.flush()

    def load(self, job: int, keys: Sequence[bytes], chunks: Sequence[int]) -> None:
        """Reads chunks into their rows."""
        names, rows = [name_of(key) for key in keys], self._rows(chunks)
        self._keys[job] = list(keys)
        self._transfers.load(job, names, rows, [self._row_bytes] * len(keys))

    def store(
        self,
        job: int,
        keys: Sequence[bytes],
        chunks: Sequence[int],
        request: str = "",
        end_of: Callable[[bytes], int | None] = lambda key: None,
    ) -> None:
        """Stores rows. end_of(key): the token position in the request at which the chunk ends."""
        names, rows = [name_of(key) for key in keys], self._rows(chunks)
        parents = self._parents(keys, request, end_of)
        self._keys[job] = list(keys)
        self._transfers.store(job, names, rows, parents, [self._row_bytes] * len(keys))

    def finished(self) -> list[tuple[Done, list[bytes]]]:
        """The jobs that have ended since the last call, each with its keys.

        A chunk that could not be loaded is taken for lost: later lookups of those requests miss.
        """
        ended = []
        for done in self._transfers.finished():
            keys = self._keys.pop(done.tag)
            if done.load:
                self._exists.correct((k for k, ok in zip(keys, done.ok) if not ok), False)
            else:
                self._exists.correct((k for k, ok in zip(keys, done.ok) if ok), True)
            ended.append((done, keys))
        return ended

    def forget(self, request: str) -> None:
        """The request has ended; its jobs may still run."""
        self._exists.forget(request)
        self._last.pop(request, None)

    def drain(self) -> None:
        """Blocks until all jobs have ended."""
        self._transfers.drain()

    def cut_off(self) -> None:
        """Ends all jobs, unfinished: nothing touches the rows then. Blocks, shortly."""
        self._transfers.cut_off()
        self._transfers.drain()

    def leave(self) -> bool:
        """cut_off(), and from now on lookups, loads and stores fail. False: so it was before."""
        before, self._left = self._left, True
        self._pool.close()
        self.cut_off()
        return not before

    def close(self) -> None:
        """Cuts jobs off, ends the threads and lets go of the view. Blocks, shortly."""
        self._transfers.close()
        self._lookup_worker.close()
        self._flat.release()

    def _rows(self, chunks: Sequence[int]) -> list[memoryview]:
        size = self._row_bytes
        return [self._flat[int(c) * size : (int(c) + 1) * size] for c in chunks]

    def _parents(
        self, keys: Sequence[bytes], request: str, end_of: Callable[[bytes], int | None]
    ) -> list[str]:
        """Names of the chunks before these in the request, "" where that is not known.

        Of each group the last one stored is remembered, since jobs mostly come in order. Groups of
        sliding windows have gaps: a parent further up does no harm.
        """
        last = self._last.setdefault(request, {})
        parents = [""] * len(keys)
        ends = [(end, index) for index, key in enumerate(keys) if (end := end_of(key)) is not None]
        for end, index in sorted(ends):
            key = keys[index]
            before = last.get(key[-_GROUP_BYTES:])
            if before is not None and before[0] < end:
                parents[index] = name_of(before[1])
            if before is None or before[0] < end:
                last[key[-_GROUP_BYTES:]] = (end, key)
        return parents
