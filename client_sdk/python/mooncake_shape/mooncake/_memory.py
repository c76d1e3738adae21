"""Memory by address: what callers register, what they allocate, what they are handed."""

from __future__ import annotations

import bisect
import ctypes
import logging
import os
import threading

import moonpool

_log = logging.getLogger("mooncake.store")
# By its name: what stands before it in a process (a sanitizer) would look at the memory itself.
_libc = ctypes.CDLL("libc.so.6", use_errno=True)


# What no address and no size of this process can reach, the limit of Python's buffers aside.
_ADDRESS_END = 1 << 64
SIZE_END = 1 << 63


def is_region(address: int, size: int) -> bool:
    """Whether numbers of callers can mean memory, whoever has it: no sign, no end beyond the last
    address. No bytes may be anywhere."""
    is_somewhere = address > 0 or size == 0
    return is_somewhere and address >= 0 and 0 <= size < SIZE_END and address + size < _ADDRESS_END


def is_host_memory(address: int, size: int) -> bool:
    """Whether this process can read the first and the last byte there.

    False for what a GPU has, whose addresses mean nothing to the CPU: better said at registration
    than by a crash in the first transfer. Nothing else tells without a fault: the kernel is asked
    to read them.
    """
    reader, writer = os.pipe()
    try:
        return all(_libc.write(writer, ctypes.c_void_p(place), ctypes.c_size_t(1)) == 1
                   for place in (address, address + size - 1))
    finally:
        os.close(reader)
        os.close(writer)


class RegisteredBuffers:
    """The regions that callers have registered; thread-safe. They do not overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, address: int, size: int) -> bool:
        """False: no region, no host memory, or one that overlaps another."""
        if address == 0 or size == 0 or not is_region(address, size):
            return False
        if not is_host_memory(address, size):
            _log.error("%d bytes at %#x are not host memory: a Moonpool's client reads and writes "
                       "host memory only", size, address)
            return False
        with self._lock:
            at = bisect.bisect_right(self._starts, address)
            if at > 0 and self._ends[at - 1] > address:
                return False
            if at < len(self._starts) and self._starts[at] < address + size:
                return False
            self._starts.insert(at, address)
            self._ends.insert(at, address + size)
            return True

    def remove(self, address: int) -> bool:
        """False: none begins there."""
        with self._lock:
            at = bisect.bisect_left(self._starts, address)
            if at == len(self._starts) or self._starts[at] != address:
                return False
            del self._starts[at], self._ends[at]
            return True

    def clear(self) -> None:
        with self._lock:
            self._starts.clear()
            self._ends.clear()


class BufferHandle(bytearray):
    """An object's bytes in memory of this process. Writable, as the original's; never resize it.

    ``len()``, ``memoryview()`` and whatever takes a buffer work as with any bytearray.
    """

    def ptr(self) -> int:
        """Address of the first byte; good for as long as this object lives."""
        return ctypes.addressof((ctypes.c_char * len(self)).from_buffer(self))

    def size(self) -> int:
        """Bytes."""
        return len(self)


# By address, until freed: an allocator may go before what it has allocated, as the original's may.
_allocated: dict[int, moonpool.HostBuffer] = {}


class MooncakeHostMemAllocator:
    """Page-aligned, zeroed host memory by address, for engines' staging pools."""

    def alloc(self, size: int) -> int:
        """The address, or 0 when there is not enough memory. RuntimeError for a size of 0."""
        if size <= 0:
            raise RuntimeError(f"cannot allocate {size} bytes")
        if size >= SIZE_END:
            _log.error("cannot allocate %d bytes: no process has so many", size)
            return 0
        try:
            buffer = moonpool.HostBuffer(size)
        except moonpool.MoonpoolError as error:
            _log.error("cannot allocate %d bytes: %s", size, error)
            return 0
        _allocated[buffer.address] = buffer
        return buffer.address

    def free(self, ptr: int) -> int:
        """0, or -1 when ``alloc`` did not return it."""
        return 0 if _allocated.pop(ptr, None) is not None else -1
