"""The tier of moonpool.vllm, without vLLM and without a pool."""

from __future__ import annotations

import unittest

from moonpool.vllm.tier_core import TierCore, name_of
from vllm_bench import OPTIONS, Bench

ROWS, ROW_BYTES = 4, 8
KEYS = [bytes([n]) * 32 + bytes(4) for n in range(3)]


class TierCoreTest(unittest.TestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        memory = memoryview(bytearray(ROWS * ROW_BYTES)).cast("B", (ROWS, ROW_BYTES))
        self.core = TierCore(memory, self.bench.pool, OPTIONS)
        self.addCleanup(self.core.close)

    def look(self, key: bytes) -> bool:
        while (found := self.core.lookup(key, "r")) is None:
            self.core.end_step()
        return found

    def test_after_leaving_nothing_is_found_loaded_or_stored(self) -> None:
        self.bench.fake.objects = {name_of(key): b"x" * ROW_BYTES for key in KEYS[:2]}
        self.assertTrue(self.look(KEYS[0]))
        self.assertEqual([self.core.leave(), self.core.leave()], [True, False])
        self.assertEqual([self.core.lookup(key, "r") for key in KEYS], [False] * 3)
        self.core.load(1, KEYS[:2], [0, 1])
        self.core.store(2, KEYS[2:], [2])
        self.assertEqual([(done.tag, done.ok) for done, _ in self.core.finished()],
                         [(1, [False] * 2), (2, [False])])
        self.assertEqual(self.bench.fake.calls, ["exists", "close"])

    def test_leaving_ends_what_is_under_way(self) -> None:
        self.core.store(1, KEYS, range(3))
        self.core.leave()
        ((done, keys),) = self.core.finished()
        self.assertEqual((done.tag, keys, self.core.running), (1, KEYS, 0))
        self.assertEqual(self.bench.lines, [])


if __name__ == "__main__":
    unittest.main()
