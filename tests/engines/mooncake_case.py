"""What the unit tests of the Mooncake shape share: memory, a store on a pool, and how they end."""

from __future__ import annotations

import ctypes
import json
import sys
import unittest

import mooncake_fixture as fixture

fixture.add_paths()

from mooncake.store import MooncakeDistributedStore  # noqa: E402


class Region:
    """Some memory of the test's, by address."""

    def __init__(self, content: bytes | int) -> None:
        size = content if isinstance(content, int) else len(content)
        self._bytes = ctypes.create_string_buffer(size)
        self.ptr = ctypes.addressof(self._bytes)
        if not isinstance(content, int):
            ctypes.memmove(self.ptr, content, size)

    def view(self) -> memoryview:
        return memoryview(self._bytes)[:].cast("B")

    def read(self, begin: int, end: int) -> bytes:
        return self._bytes.raw[begin:end]


class WithStore(unittest.TestCase):
    """One pool of two nodes for a class; each test has a namespace of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = fixture.new_pool(nodes=2, dram="64MiB")
        cls.addClassCleanup(cls.pool.close)

    def setUp(self) -> None:
        self.store = self.new_store()

    def new_store(self, **config) -> MooncakeDistributedStore:
        store = MooncakeDistributedStore()
        named = {"master_server_addr": self.pool.master, "tenant_id": self.id()} | config
        self.assertEqual(store.setup(named), 0)
        self.addCleanup(store.close)
        return store


def run(name: str) -> None:
    """The tests of the main module; one line of JSON, last, says how they went."""
    result = unittest.main(exit=False, warnings="ignore").result
    print(json.dumps({"test": name, "ran": result.testsRun,
                      "failed": len(result.failures) + len(result.errors),
                      "skipped": len(result.skipped)}))
    sys.exit(0 if result.wasSuccessful() else 1)
