"""Mooncake's store from its released wheel, with buffers registered as it wants them."""

from __future__ import annotations

import ctypes
import importlib.metadata

import numpy
from mooncake.store import MooncakeDistributedStore

LOCAL_BUFFER_BYTES = 512 << 20
STAGING_BYTES = 16 << 20
PACKAGE = "mooncake-transfer-engine-non-cuda"


class Side:
    version = importlib.metadata.version(PACKAGE)

    def __init__(self, address: str, path: str = "tcp") -> None:
        """Lends no memory: what it stores lies with the provider or the daemon (see compare.py).
        `address`: with "tcp" the master's, with "shm" that of the daemon of this host."""
        self._store = MooncakeDistributedStore()
        self._is_mapped = path == "shm"
        if self._is_mapped:
            _check("setup_dummy",
                   self._store.setup_dummy(LOCAL_BUFFER_BYTES, STAGING_BYTES, address))
        else:
            _check("setup", self._store.setup("127.0.0.1", "P2PHANDSHAKE", 0, LOCAL_BUFFER_BYTES,
                                              "tcp", "", address))

    def buffers(self, size: int, count: int) -> list[numpy.ndarray]:
        block = self._shared(size, count) if self._is_mapped else numpy.ones((count, size),
                                                                             numpy.uint8)
        _check("register_buffer", self._store.register_buffer(block.ctypes.data, block.nbytes))
        return list(block)

    def _shared(self, size: int, count: int) -> numpy.ndarray:
        """Memory that the daemon has mapped."""
        address = self._store.alloc_from_mem_pool(size * count)
        if not address:
            raise RuntimeError("mooncake: alloc_from_mem_pool returned nothing")
        flat = numpy.ctypeslib.as_array((ctypes.c_uint8 * (size * count)).from_address(address))
        flat[:] = 1
        return flat.reshape(count, size)

    def put(self, keys: list[str], values: list[numpy.ndarray]) -> None:
        if len(keys) == 1:
            _check("put_from",
                   self._store.put_from(keys[0], values[0].ctypes.data, values[0].nbytes))
            return
        for code in self._store.batch_put_from(keys, [v.ctypes.data for v in values],
                                               [v.nbytes for v in values]):
            _check("batch_put_from", code)

    def get(self, keys: list[str], into: list[numpy.ndarray]) -> None:
        sizes = [buffer.nbytes for buffer in into]
        if len(keys) == 1:
            got = [self._store.get_into(keys[0], into[0].ctypes.data, sizes[0])]
        else:
            got = self._store.batch_get_into(keys, [b.ctypes.data for b in into], sizes)
        if got != sizes:
            raise RuntimeError(f"mooncake: get returned {got}")

    def remove(self, keys: list[str]) -> None:
        for key in keys:
            self._store.remove(key, True)  # whatever lease the put has left

    def close(self) -> None:
        self._store.close()


def _check(what: str, code: int) -> None:
    if code != 0:
        raise RuntimeError(f"mooncake: {what} returned {code}")


def provide(master: str, host: str, segment_bytes: int) -> None:
    """Lends memory until standard input ends."""
    import sys

    store = MooncakeDistributedStore()
    code = store.setup(host, "P2PHANDSHAKE", segment_bytes, 16 << 20, "tcp", "", master)
    print("ready" if code == 0 else f"setup returned {code}", flush=True)
    sys.stdin.read()
    store.close()
