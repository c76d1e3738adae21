#!/usr/bin/env python3
"""mooncake.store on Moonpool: what its calls cost while the pool is away. Needs no pool.

    python3 tests/engines/mooncake_outage_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev).
"""

from __future__ import annotations

import unittest
import unittest.mock

import mooncake_case as case
import moonpool
from mooncake._pool import Pool


class Outages(unittest.TestCase):
    """Calls to masters that are away take about a second each: few are made."""

    AWAY = moonpool.Unavailable("away", code="UNAVAILABLE")

    def setUp(self) -> None:
        self.now = 100.0
        patch = unittest.mock.patch("mooncake._patience.time")
        patch.start().monotonic.side_effect = lambda: self.now
        self.addCleanup(patch.stop)
        self.client = unittest.mock.Mock()
        self.client.put_many.return_value = [True]
        self.pool = Pool(self.client, timeout=10)

    def test_while_the_pool_is_away_calls_fail_at_once(self) -> None:
        self.client.exists_many.side_effect = self.AWAY
        with self.assertLogs("mooncake.store", "WARNING") as logged:
            for _ in range(3):
                self.assertEqual(self.pool.exists(["a", "b"]), [-900, -900])
            self.assertEqual(self.pool.sizes(["a"]), [-900], "one outage for all that ask")
        self.assertEqual(self.client.exists_many.call_count, 1)
        self.client.describe_many.assert_not_called()
        self.assertEqual(len(logged.output), 2, "the error, and what follows from it")
        self.assertEqual(self.pool.put(["a"], [b"1"], 1), [0], "perhaps a node takes them")

    def test_one_call_finds_out_that_it_is_back(self) -> None:
        self.client.get_into_many.side_effect = self.AWAY
        with self.assertLogs("mooncake.store", "WARNING"):
            self.assertEqual(self.pool.get_into(["a"], [bytearray(1)]), [-900])
        self.client.get_into_many.side_effect = [[1], [1]]
        self.assertEqual(self.pool.get_into(["a"], [bytearray(1)]), [-900])
        self.now += 0.5
        for _ in range(2):
            self.assertEqual(self.pool.get_into(["a"], [bytearray(1)]), [1])

    def test_an_answer_is_no_outage(self) -> None:
        no_nodes = moonpool.Unavailable("", code="UNAVAILABLE", reason="NO_NODES")
        gone = moonpool.Miss("gone", code="NOT_FOUND", reason="NODE_LOST")
        for outcome, numbers in (([no_nodes, no_nodes], [-200, -200]), ([self.AWAY, gone],
                                                                        [-900, -704])):
            self.client.put_many.return_value = outcome
            with self.assertLogs("mooncake.store", "WARNING"):
                for _ in range(2):
                    self.assertEqual(self.pool.put(["a", "b"], [b"1", b"2"], 1), numbers)
            self.pool = Pool(self.client, timeout=10)
        self.assertEqual(self.client.put_many.call_count, 4)

    def test_what_was_wrong_with_a_call_says_nothing(self) -> None:
        self.client.put_many.side_effect = [self.AWAY, TypeError("no buffer"), [True]]
        with self.assertLogs("mooncake.store", "WARNING"):
            self.assertEqual(self.pool.put(["a"], [b"1"], 1), [-900])
        self.now += 0.5
        with self.assertRaises(TypeError):
            self.pool.put(["a"], [7], 1)
        self.assertEqual(self.pool.put(["a"], [b"1"], 1), [0], "the next one is tried")

    def test_health_is_asked_for_all_the_same(self) -> None:
        self.client.exists_many.side_effect = self.AWAY
        with self.assertLogs("mooncake.store", "WARNING"):
            self.pool.exists(["a"])
        self.assertTrue(self.pool.is_reachable())


if __name__ == "__main__":
    case.run("mooncake_outage")
