"""Moonpool, through its Python package."""

from __future__ import annotations

import moonpool
import numpy


class Side:
    """`path`: "tcp", as a node elsewhere, or "shm"."""

    version = moonpool.__version__

    def __init__(self, master: str, path: str = "tcp") -> None:
        self._client = moonpool.Client(master, namespace="peers", fingerprint="peers", path=path)

    def buffers(self, size: int, count: int) -> list[numpy.ndarray]:
        return list(numpy.ones((count, size), numpy.uint8))

    def put(self, keys: list[str], values: list[numpy.ndarray]) -> None:
        if len(keys) == 1:
            self._client.put(keys[0], values[0])
            return
        for result in self._client.put_many(keys, values):
            if isinstance(result, Exception):
                raise result

    def get(self, keys: list[str], into: list[numpy.ndarray]) -> None:
        if len(keys) == 1:
            self._client.get_into(keys[0], into[0])
            return
        for result in self._client.get_into_many(keys, into):
            if isinstance(result, Exception):
                raise result

    def remove(self, keys: list[str]) -> None:
        self._client.remove_many(keys)

    def close(self) -> None:
        self._client.close()
