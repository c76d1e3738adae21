"""A moonpool.Client of this process's own memory, which fails on demand: for tests of adapters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import moonpool


class FakePool:
    """What all fake clients share: the objects, and how calls go wrong.

    down: an error that every call raises. lost: keys that are found, and cannot be read. wrong:
    what reading a key gives instead of bytes. gate: calls that move bytes wait for it, so that a
    test decides when they end. during, connecting: run within each call, and each connect.
    timeouts: what each call was given.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parents: dict[str, str] = {}
        self.lost: set[str] = set()
        self.wrong: dict[str, Exception] = {}
        self.down: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.during: Callable[[], object] = lambda: None
        self.connecting: Callable[[], object] = lambda: None
        self.calls: list[str] = []
        self.timeouts: list[float] = []
        self.connects = 0

    def connect(self) -> FakeClient:
        """What `Pool` takes."""
        self.connects += 1
        self.connecting()
        if self.down is not None:
            raise self.down
        return FakeClient(self)


class FakeClient:
    """The calls that adapters use."""

    def __init__(self, pool: FakePool) -> None:
        self._pool = pool

    def exists_many(self, keys: Sequence[str], **how: Any) -> list[Any]:
        self._enter("exists", how)
        return [key in self._pool.objects for key in keys]

    def match_prefix(self, keys: Sequence[str], **how: Any) -> Any:
        self._enter("match", how)
        matched = 0
        while matched < len(keys) and keys[matched] in self._pool.objects:
            matched += 1
        return type("PrefixMatch", (), {"matched": matched})()

    def get_into_many(self, keys: Sequence[str], targets: Sequence[Any], **how: Any) -> list[Any]:
        self._enter("get", how, gated=True)
        return [self._get(key, target) for key, target in zip(keys, targets)]

    def put_many(
        self, keys: Sequence[str], values: Sequence[Any], *, parents: Sequence[str], **how: Any
    ) -> list[Any]:
        self._enter("put", how, gated=True)
        stored = []
        for key, value, parent in zip(keys, values, parents):
            stored.append(key not in self._pool.objects)
            self._pool.objects.setdefault(key, joined(value))
            self._pool.parents.setdefault(key, parent)
        return stored

    def close(self) -> None:
        self._pool.calls.append("close")

    def _enter(self, what: str, how: dict[str, Any], *, gated: bool = False) -> None:
        self._pool.calls.append(what)
        self._pool.timeouts.append(how["timeout"])
        self._pool.during()
        if gated:
            self._pool.gate.wait()
        if self._pool.down is not None:
            raise self._pool.down

    def _get(self, key: str, target: Any) -> Any:
        if key in self._pool.wrong:
            return self._pool.wrong[key]
        if key in self._pool.lost or key not in self._pool.objects:
            return moonpool.Miss("gone", code="NOT_FOUND", reason="NODE_LOST", key=key)
        data = self._pool.objects[key]
        at = 0
        for piece in target if isinstance(target, list) else [target]:
            view = memoryview(piece).cast("B")
            view[:] = data[at : at + len(view)]
            at += len(view)
        return len(data)


def joined(value: Any) -> bytes:
    """The bytes of a value: a buffer, or a list of them."""
    pieces = value if isinstance(value, list) else [value]
    return b"".join(bytes(memoryview(piece)) for piece in pieces)
