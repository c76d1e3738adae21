"""How moonpool.vllm moves blocks and asks for them, without vLLM and without a pool."""

from __future__ import annotations

import subprocess
import sys
import threading
import unittest
from typing import Any

import moonpool
from fake_client import FakePool
from moonpool.vllm.lookups import ExistsTable, MatchTable
from moonpool.vllm.pool import Limits, Pool
from moonpool.vllm.transfers import Transfers, cut
from moonpool.vllm.workers import Workers
from vllm_bench import DOWN, OPTIONS, AtOnce, Bench


class WorkersTest(unittest.TestCase):
    def test_urgent_tasks_pass_the_others_and_the_queue_is_bounded(self) -> None:
        workers = Workers("test", 1, queue=3)
        busy, go, order = threading.Event(), threading.Event(), []
        self.assertTrue(workers.submit(lambda: (busy.set(), go.wait())))
        busy.wait()
        self.assertTrue(workers.submit(lambda: order.append("patient")))
        self.assertTrue(workers.submit(lambda: order.append("urgent"), urgent=True))
        self.assertTrue(workers.submit(lambda: order.append("patient")))
        self.assertFalse(workers.submit(lambda: order.append("too many")))
        go.set()
        workers.close()
        self.assertEqual(order, ["urgent", "patient", "patient"])
        self.assertFalse(workers.submit(lambda: None))

    def test_stores_leave_a_thread_to_loads(self) -> None:
        workers = Workers("test", 2, queue=8)
        go, loaded = threading.Event(), threading.Event()
        for _ in range(3):
            workers.submit(go.wait)
        workers.submit(loaded.set, urgent=True)
        self.assertTrue(loaded.wait(10))
        go.set()
        workers.close()


    def test_a_task_that_raises_is_logged_and_its_thread_goes_on(self) -> None:
        workers, went_on = Workers("test", 1, queue=8), threading.Event()

        def fail() -> None:
            raise TypeError("a bug")

        with self.assertLogs("vllm.moonpool", "ERROR") as logged:
            workers.submit(fail)
            workers.submit(went_on.set)
            self.assertTrue(went_on.wait(10))
        self.assertIn("a bug", logged.output[0])
        workers.close()


class Broken(Pool):
    """A pool with a bug: each call raises."""

    def _call(self, *_: Any) -> Any:
        raise TypeError("a bug")


class BugTest(unittest.TestCase):
    """Whatever goes wrong in a thread, the engine gets an answer."""

    def setUp(self) -> None:
        self.pool = Broken(FakePool().connect, OPTIONS, log=self.fail)
        self.workers = Workers("test", 2, queue=8)
        self.logs = self.enterContext(self.assertLogs("vllm.moonpool", "ERROR"))

    def test_jobs_end(self) -> None:
        transfers = Transfers(self.pool, self.workers, slice_bytes=1)
        transfers.load(1, ["a", "b"], [bytearray(1)] * 2, [1, 1])
        transfers.drain()
        self.assertEqual([done.ok for done in transfers.finished()], [[False, False]])
        transfers.close()

    def test_questions_are_answered(self) -> None:
        singles = ExistsTable(self.pool, self.workers, str)
        chains = MatchTable(self.pool, self.workers)
        singles.ask("a", "r")
        singles.flush()
        chains.ask("r", 0, lambda: [["a"]])
        self.workers.close()
        self.assertEqual((singles.ask("a", "r"), chains.ask("r", 0, self.fail)), (False, 0))


# A process whose main thread ends while a load connects to a master that says nothing.
EXITS = """
import socket, threading
from moonpool.vllm.options import Options
from moonpool.vllm.pool import Pool, connector
from moonpool.vllm.transfers import Transfers
from moonpool.vllm.workers import Workers
silent = socket.create_server(("127.0.0.1", 0))
options = Options.parse({"masters": "127.0.0.1:%d" % silent.getsockname()[1],
                         "timeout": 60, "lookup_timeout": 60})
client, begun = connector("x", "y", options, print), threading.Event()
pool = Pool(lambda: (begun.set(), client())[1], options, log=print)
workers = Workers("move", 2, 8)
Transfers(pool, workers, slice_bytes=1).load(1, ["a", "b"], [bytearray(1)] * 2, [1, 1])
begun.wait()
print("end")
"""


class ExitTest(unittest.TestCase):
    def test_a_process_may_end_without_closing_anything(self) -> None:
        ended = subprocess.run([sys.executable, "-c", EXITS], timeout=50, check=True,
                               stdout=subprocess.PIPE, text=True)
        self.assertEqual(ended.stdout, "end\n")


class PoolTest(unittest.TestCase):
    def test_an_outage_is_a_miss_and_then_no_call_at_all(self) -> None:
        bench = Bench()
        bench.fake.down = DOWN
        self.assertEqual(bench.pool.exists(["a", "b"]), [False, False])
        self.assertTrue(bench.pool.away)
        self.assertEqual(bench.pool.match(["a"]), 0)
        self.assertEqual(bench.pool.load(["a"], [bytearray(1)], [1]), [False])
        self.assertEqual(bench.fake.connects, 1)
        self.assertEqual(len(bench.lines), 1)
        bench.fake.down = None
        bench.fake.objects["a"] = b"x"
        bench.now += OPTIONS.pause_first
        self.assertEqual(bench.pool.exists(["a", "b"]), [True, False])
        self.assertIn("the pool is back", bench.lines[-1])

    def test_one_lost_object_among_others_is_no_outage(self) -> None:
        bench = Bench()
        bench.fake.objects |= {"a": b"x", "b": b"y"}
        bench.fake.lost.add("a")
        into = bytearray(1)
        self.assertEqual(bench.pool.load(["a", "b"], [bytearray(1), into], [1, 1]), [False, True])
        self.assertEqual(bytes(into), b"y")
        self.assertFalse(bench.pool.away)
        self.assertEqual(bench.lines, [])

    def test_a_foreign_object_is_no_outage(self) -> None:
        bench = Bench()
        bench.fake.wrong["a"] = moonpool.InvalidArgument(
            "too long", code="INVALID_ARGUMENT", reason="BUFFER_TOO_SHORT")
        self.assertEqual(bench.pool.load(["a"], [bytearray(1)], [1]), [False])
        self.assertFalse(bench.pool.away)
        self.assertIn("too long", bench.lines[0])

    def test_a_refused_connect_is_not_tried_all_the_time(self) -> None:
        bench = Bench()
        refused = moonpool.FailedPrecondition("another layout", code="FAILED_PRECONDITION")
        bench.fake.down = refused
        self.assertEqual(bench.pool.exists(["a"]), [False])
        self.assertTrue(bench.pool.away)
        bench.now += OPTIONS.pause_first
        bench.fake.down = None
        self.assertEqual(bench.pool.exists(["a"]), [False])
        bench.fake.down = refused  # a call that is refused is cheap, and says nothing of others
        self.assertEqual(bench.pool.exists(["a"]), [False])
        self.assertFalse(bench.pool.away)

    def test_misses_end_an_outage(self) -> None:
        bench = Bench()
        bench.fake.down = DOWN
        bench.pool.load(["a"], [bytearray(1)], [1])
        bench.fake.down = None
        bench.now += OPTIONS.pause_first
        self.assertEqual(bench.pool.load(["a"], [bytearray(1)], [1]), [False])
        self.assertIn("the pool is back", bench.lines[-1])

    def test_a_probe_that_came_too_late_leaves_its_place_to_the_next_call(self) -> None:
        bench = Bench()
        bench.fake.down = DOWN
        bench.pool.exists(["a"])
        bench.fake.down = None
        bench.fake.objects["a"] = b"x"
        bench.now += OPTIONS.pause_first
        self.assertEqual(bench.pool.exists(["a"], Limits(bench.now - 2.0, 1.0)), [False])
        self.assertEqual(bench.pool.exists(["a"]), [True])

    def test_lookups_that_work_do_not_excuse_loads_that_do_not(self) -> None:
        bench = Bench()
        bench.fake.objects["a"] = b"x"
        for pause in (1.0, 2.0, 4.0):
            self.assertEqual(bench.pool.exists(["a"]), [True])
            bench.fake.down = DOWN
            self.assertEqual(bench.pool.load(["a"], [bytearray(1)], [1]), [False])
            bench.fake.down = None
            bench.now += pause - 0.5
            self.assertTrue(bench.pool.away)
            bench.now += 0.5
            self.assertFalse(bench.pool.away)

    def test_an_object_of_another_size_is_not_taken(self) -> None:
        bench = Bench()
        bench.fake.objects["a"] = b"x"
        self.assertEqual(bench.pool.load(["a"], [bytearray(2)], [2]), [False])

    def test_callers_fail_with_the_one_that_connects(self) -> None:
        bench = Bench()
        bench.fake.down = DOWN
        going, go = threading.Event(), threading.Event()
        bench.fake.connecting = lambda: (going.set(), go.wait(10))
        found: list[bool] = []
        callers = [threading.Thread(target=lambda: found.extend(bench.pool.exists(["a"])))
                   for _ in range(5)]
        for caller in callers:
            caller.start()
        going.wait(10)
        go.set()
        for caller in callers:
            caller.join(10)
        self.assertEqual((found, bench.fake.connects, len(bench.lines)), ([False] * 5, 1, 1))

    def test_callers_share_the_client_that_one_makes(self) -> None:
        bench = Bench()
        bench.fake.objects["a"] = b""
        going, go = threading.Event(), threading.Event()
        bench.fake.connecting = lambda: (going.set(), go.wait(10))
        workers, found = Workers("test", 3, 8), []
        for _ in range(3):
            workers.submit(lambda: found.extend(bench.pool.exists(["a"])))
        going.wait(10)
        go.set()
        workers.close()
        self.assertEqual((found, bench.fake.connects), ([True] * 3, 1))

    def test_close_does_not_wait_for_a_connect(self) -> None:
        bench = Bench()
        going, go = threading.Event(), threading.Event()
        bench.fake.connecting = lambda: (going.set(), go.wait(10))
        callers = [threading.Thread(target=bench.pool.match, args=(["a"],))]
        callers[0].start()
        going.wait(10)
        waits = threading.Event()
        limits = Limits(bench.now, 1000.0)
        bench.on_clock = waits.set  # read last before it waits, under the lock that close() takes
        callers.append(threading.Thread(target=bench.pool.match, args=(["a"], limits)))
        callers[1].start()
        waits.wait(10)
        bench.pool.close()
        callers[1].join(10)
        self.assertFalse(callers[1].is_alive(), "a caller that waited is let go")
        self.assertTrue(callers[0].is_alive())
        go.set()
        callers[0].join(10)
        self.assertEqual(bench.fake.calls, ["close"], "the client that came too late is closed")
        self.assertEqual((bench.fake.connects, bench.lines), (1, []))

    def test_after_close_everything_misses(self) -> None:
        bench = Bench()
        bench.pool.exists(["a"])
        bench.pool.close()
        bench.pool.close()
        self.assertEqual(bench.pool.exists(["a"]), [False])
        self.assertEqual(bench.fake.calls, ["exists", "close"])


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
        self.assertEqual((bench.fake.calls, bench.lines, bench.pool.away), (["put"], [], False))

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
