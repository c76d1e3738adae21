"""How moonpool.vllm moves blocks and asks for them, without vLLM and without a pool."""

from __future__ import annotations

import unittest

import moonpool
from moonpool.vllm.lookups import ExistsTable, MatchTable
from moonpool.vllm.pool import STORE
from moonpool.vllm.transfers import Transfers, cut
from moonpool.vllm.workers import Workers
from vllm_bench import DOWN, OPTIONS, AtOnce, Bench


class TransfersTest(unittest.TestCase):
    def test_ranges_cover_all_and_respect_the_size(self) -> None:
        self.assertEqual(cut([4, 4, 4, 20, 1], 8), [(0, 2), (2, 3), (3, 4), (4, 5)])
        self.assertEqual(cut([], 8), [])

    def test_a_job_ends_once_with_the_parts_that_worked(self) -> None:
        bench = Bench()
        bench.fake.objects |= {"a": b"1", "c": b"3"}
        transfers = Transfers(bench.pool, AtOnce(), slice_bytes=1)
        targets = [bytearray(1) for _ in range(3)]
        transfers.load("job", ["a", "b", "c"], targets, [1, 1, 1])
        (done,) = transfers.finished()
        self.assertEqual((done.tag, done.ok, done.moved_bytes), ("job", [True, False, True], 2))
        self.assertEqual((transfers.finished(), transfers.running), ([], 0))

    def test_empty_jobs_and_jobs_of_a_pool_that_is_away_end_at_once(self) -> None:
        bench = Bench()
        bench.fake.down = DOWN
        bench.pool.exists(["a"])
        workers = AtOnce(by_hand=True)
        transfers = Transfers(bench.pool, workers, slice_bytes=1)
        transfers.store(1, ["a"], [b"1"], [""], [1])
        transfers.store(2, [], [], [], [])
        self.assertEqual([(d.tag, d.ok) for d in transfers.finished()], [(1, [False]), (2, [])])
        self.assertEqual(workers.tasks, [])

    def test_a_job_has_its_time_from_submission_on(self) -> None:
        bench, workers = Bench(), AtOnce(by_hand=True)
        count, each = 40, OPTIONS.timeout / 20

        def during() -> None:
            bench.now += each

        bench.fake.during = during
        transfers = Transfers(bench.pool, workers, slice_bytes=1)
        transfers.store("slow", [str(n) for n in range(count)], [b"x"] * count, [""] * count,
                        [1] * count)
        bench.now += each  # until a thread has time
        workers.run()
        (done,) = transfers.finished()
        self.assertEqual(done.ok, [True] * 19 + [False] * 21)
        self.assertEqual(bench.fake.timeouts[0::18], [OPTIONS.timeout - each, each])
        self.assertIn("in time", bench.lines[0])
        self.assertEqual(done.seconds, OPTIONS.timeout)

    def test_lookups_have_their_time_from_the_question_on(self) -> None:
        bench, workers = Bench(), AtOnce(by_hand=True)
        chains, singles = MatchTable(bench.pool, workers), ExistsTable(bench.pool, workers, str)
        chains.ask("r", 0, lambda: [["a"]])
        singles.ask("a", "r")
        singles.flush()
        bench.now += OPTIONS.lookup_timeout
        workers.run()
        self.assertEqual((chains.ask("r", 0, self.fail), singles.ask("a", "r")), (0, False))
        self.assertEqual(bench.fake.calls, [])

    def test_what_is_cut_off_begins_no_slice_and_is_no_outage(self) -> None:
        bench, workers = Bench(), AtOnce(by_hand=True)
        transfers = Transfers(bench.pool, workers, slice_bytes=1)

        def during() -> None:
            transfers.cut_off()
            raise moonpool.Cancelled("cut off", code="CANCELLED")

        bench.fake.during = during
        transfers.store(1, ["a", "b", "c"], [b"1"] * 3, [""] * 3, [1] * 3)
        workers.run()
        transfers.drain()
        self.assertEqual([d.ok for d in transfers.finished()], [[False] * 3])
        self.assertEqual((bench.fake.calls, bench.lines, bench.pool.away(STORE)), (["put"], [], False))

    def test_drain_waits_for_threads(self) -> None:
        bench = Bench()
        bench.fake.gate.clear()
        transfers = Transfers(bench.pool, Workers("test", 2, 8), slice_bytes=1)
        transfers.store(1, ["a", "b"], [b"1", b"2"], ["", "a"], [1, 1])
        self.assertEqual((transfers.finished(), transfers.running), ([], 1))
        bench.fake.gate.set()
        transfers.drain()
        self.assertEqual([d.ok for d in transfers.finished()], [[True, True]])
        transfers.close()


class LookupsTest(unittest.TestCase):
    def test_questions_of_a_step_are_one_call(self) -> None:
        bench = Bench()
        bench.fake.objects["k1"] = b""
        table = ExistsTable(bench.pool, AtOnce(), lambda key: f"k{key}")
        self.assertEqual([table.ask(n, "r") for n in (1, 2, 1)], [None, None, None])
        table.flush()
        self.assertEqual([table.ask(n, "r") for n in (1, 2)], [True, False])
        table.flush()
        self.assertEqual(bench.fake.calls, ["exists"])

    def test_answers_last_as_long_as_somebody_wants_them(self) -> None:
        bench = Bench()
        table = ExistsTable(bench.pool, AtOnce(), str)
        table.ask("a", "r1"), table.ask("a", "r2")
        table.flush()
        table.forget("r1")
        bench.fake.objects["a"] = b""
        self.assertIs(table.ask("a", "r2"), False)
        table.forget("r2")
        self.assertIsNone(table.ask("a", "r3"))
        table.flush()
        self.assertIs(table.ask("a", "r3"), True)
        table.correct(["a", "unknown"], False)
        self.assertIs(table.ask("a", "r3"), False)

    def test_a_request_that_ends_while_asking_leaves_nothing(self) -> None:
        bench = Bench()
        workers = AtOnce(by_hand=True)
        table = ExistsTable(bench.pool, workers, str)
        table.ask("a", "r1")
        table.flush()
        table.forget("r1")
        workers.run()
        self.assertIsNone(table.ask("a", "r2"))

    def test_the_shortest_chain_of_all_ranks_counts(self) -> None:
        bench = Bench()
        bench.fake.objects |= dict.fromkeys(("x1", "x2", "x3", "y1", "y2"), b"")
        table = MatchTable(bench.pool, AtOnce())
        chains = [["x1", "x2", "x3"], ["y1", "y2", "y3"]]
        self.assertIsNone(table.ask("r", 4, lambda: chains))
        self.assertEqual(table.ask("r", 4, self.fail), 2)
        self.assertEqual(table.ask("r", 5, self.fail), 1)
        self.assertEqual(table.ask("r", 9, self.fail), 0)
        table.forget("r")
        self.assertIsNone(table.ask("r", 4, lambda: chains))

    def test_a_pool_that_is_away_answers_at_once(self) -> None:
        bench = Bench()
        bench.fake.down = DOWN
        bench.pool.match(["a"])
        self.assertEqual(MatchTable(bench.pool, AtOnce()).ask("r", 0, self.fail), 0)
        self.assertIs(ExistsTable(bench.pool, AtOnce(), str).ask("a", "r"), False)
