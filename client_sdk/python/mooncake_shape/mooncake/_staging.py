"""Copies of callers' bytes, for those who do not wait until these are stored."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import moonpool
from mooncake._patience import clock

_LEAST = 1 << 20  # bytes of a buffer: small ones are all of one size
# A batch is copied in rounds, so that several callers' have room.
_ROUNDS = 2


class Staging:
    """Buffers of ours that copies are made in. Thread-safe.

    Not more than ``limit`` bytes exist at a time; what is not in use is kept for the next copies.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._held = 0  # bytes of all buffers
        self._idle: list[moonpool.HostBuffer] = []

    def rounds(self, values: Sequence[Any]) -> Iterator[slice]:
        """Which of the values are to be copied together. TypeError for what is no buffer."""
        begin = nbytes = 0
        for i, value in enumerate(values):
            size = sum(piece.nbytes for piece in _pieces(value))
            if i > begin and nbytes + size > self._limit // _ROUNDS:
                yield slice(begin, i)
                begin, nbytes = i, 0
            nbytes += size
        if begin < len(values):
            yield slice(begin, len(values))

    @contextlib.contextmanager
    def copies(self, values: Sequence[Any], deadline: float) -> Iterator[list[Any] | None]:
        """Of a round, while the context lasts. None: they were not made by the deadline.

        ResourceExhausted: there cannot be so much memory.
        """
        pieces = [_pieces(value) for value in values]
        buffer = self._take(sum(piece.nbytes for of in pieces for piece in of), deadline)
        if buffer is None:
            yield None
            return
        try:
            made, end = [], 0
            for of in pieces:
                begin = end
                for piece in of:
                    _copy(buffer, end, piece)
                    end += piece.nbytes
                made.append(moonpool.Memory(buffer.address + begin, end - begin, writable=False))
            # Asked when the last byte has been read: the caller had not given up before.
            yield made if clock() < deadline else None
        finally:
            self._give_back(buffer)

    def _take(self, nbytes: int, deadline: float) -> moonpool.HostBuffer | None:
        if nbytes > self._limit:
            raise moonpool.ResourceExhausted(
                f"a copy of {nbytes} bytes", code="RESOURCE_EXHAUSTED", reason="LIMIT_REACHED",
                hint=f"the store makes copies of {self._limit} bytes at most: `staging`")
        size = min(max(_LEAST, 1 << max(nbytes - 1, 0).bit_length()), self._limit)
        with self._changed:
            while True:
                if (left := deadline - clock()) <= 0:
                    return None
                for i, buffer in enumerate(self._idle):
                    if buffer.nbytes == size:
                        return self._idle.pop(i)
                while self._idle and self._held + size > self._limit:
                    self._held -= self._idle.pop(0).nbytes
                if self._held + size <= self._limit:
                    self._held += size
                    break
                self._changed.wait(left)
        try:
            return moonpool.HostBuffer(size)
        except moonpool.MoonpoolError:
            with self._changed:
                self._held -= size
                self._changed.notify()
            raise

    def _give_back(self, buffer: moonpool.HostBuffer) -> None:
        with self._changed:
            self._idle.append(buffer)
            self._changed.notify_all()


def _pieces(value: Any) -> list[Any]:
    """A buffer, or a list of buffers, as Memory and memoryviews of bytes."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [part if isinstance(part, moonpool.Memory) else _bytes_of(memoryview(part))
            for part in parts]


def _bytes_of(view: memoryview) -> memoryview:
    return view.cast("B") if view.nbytes > 0 else memoryview(b"")


def _copy(buffer: moonpool.HostBuffer, offset: int, piece: Any) -> None:
    if piece.nbytes == 0:
        return
    if isinstance(piece, moonpool.Memory):
        address = piece.address
    elif piece.readonly:  # nothing tells where it is
        memoryview(buffer)[offset:offset + piece.nbytes] = piece
        return
    else:
        address = ctypes.addressof(ctypes.c_char.from_buffer(piece))
    ctypes.memmove(buffer.address + offset, address, piece.nbytes)  # without the GIL
