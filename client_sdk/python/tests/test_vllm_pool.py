"""The pool as moonpool.vllm sees it, and its threads, without vLLM and without a pool."""

from __future__ import annotations

import subprocess
import sys
import threading
import unittest
from typing import Any

import moonpool
from fake_client import FakePool
from moonpool.vllm.lookups import ExistsTable, MatchTable
from moonpool.vllm.pool import LOAD, LOOK_UP, STORE, Limits, Pool
from moonpool.vllm.transfers import Transfers
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
        self.assertTrue(bench.pool.away() and bench.pool.away(STORE))
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
        self.assertFalse(bench.pool.away(LOOK_UP, LOAD, STORE))
        self.assertEqual(bench.lines, [])

    def test_a_foreign_object_is_no_outage(self) -> None:
        bench = Bench()
        bench.fake.wrong["a"] = moonpool.InvalidArgument(
            "too long", code="INVALID_ARGUMENT", reason="BUFFER_TOO_SHORT")
        self.assertEqual(bench.pool.load(["a"], [bytearray(1)], [1]), [False])
        self.assertFalse(bench.pool.away(LOOK_UP, LOAD, STORE))
        self.assertIn("too long", bench.lines[0])

    def test_a_refused_connect_is_not_tried_all_the_time(self) -> None:
        bench = Bench()
        refused = moonpool.FailedPrecondition("another layout", code="FAILED_PRECONDITION")
        bench.fake.down = refused
        self.assertEqual(bench.pool.exists(["a"]), [False])
        self.assertTrue(bench.pool.away(LOOK_UP))
        bench.now += OPTIONS.pause_first
        bench.fake.down = None
        self.assertEqual(bench.pool.exists(["a"]), [False])
        bench.fake.down = refused  # a call that is refused is cheap, and says nothing of others
        self.assertEqual(bench.pool.exists(["a"]), [False])
        self.assertFalse(bench.pool.away(LOOK_UP, LOAD, STORE))

    def test_what_only_a_person_can_mend_does_not_read_as_temporary(self) -> None:
        for code in ("INVALID_ARGUMENT", "FAILED_PRECONDITION"):
            bench = Bench()
            bench.fake.down = moonpool.MoonpoolError("no such name", code=code)
            self.assertFalse(bench.pool.reach())
            [line] = bench.lines
            self.assertEqual(line, f"moonpool: cannot connect: {code}: no such name (the engine "
                                   "goes on without the pool until somebody has corrected that)")

    def test_it_says_at_start_whether_a_master_answers(self) -> None:
        bench = Bench()
        bench.fake.down = moonpool.Unavailable("no master", code="UNAVAILABLE", hint="is it there?")
        self.assertFalse(bench.pool.reach())
        self.assertEqual(bench.lines, ["moonpool: cannot connect: UNAVAILABLE: no master; is it "
                                       "there? (the engine goes on without the pool for 1 s)"])
        self.assertFalse(bench.pool.reach(), "it is away")
        bench.fake.down = None
        bench.now += OPTIONS.pause_first
        self.assertTrue(bench.pool.reach() and bench.pool.reach())
        self.assertEqual((bench.fake.connects, bench.fake.calls), (2, []))

    def test_a_block_that_no_pool_of_this_size_takes(self) -> None:
        bench = Bench()
        client = bench.fake.connect()
        client.put_many = lambda *_, **how: [moonpool.InvalidArgument(
            "the value has 9 bytes", code="INVALID_ARGUMENT", reason="VALUE_TOO_LARGE",
            hint="split the value")]
        bench.pool._connect = lambda: client
        self.assertEqual(bench.pool.store(["a"], [b""], [""]), [False])
        self.assertIn("the pool is smaller than a block", bench.lines[0])
        self.assertNotIn("split", bench.lines[0])

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
        bench.pool.exists(["a"])
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
            self.assertTrue(bench.pool.away(LOOK_UP, LOAD))
            self.assertFalse(bench.pool.away(LOOK_UP))
            bench.now += 0.5
            self.assertFalse(bench.pool.away(LOOK_UP, LOAD))

    def test_stores_that_fail_do_not_keep_the_engine_from_what_is_there(self) -> None:
        bench = Bench()
        bench.fake.objects["a"] = b"x"
        self.assertEqual(bench.pool.exists(["a"]), [True])
        transfers = Transfers(bench.pool, AtOnce(), slice_bytes=1)
        bench.fake.down = DOWN
        transfers.store(1, ["b"], [b"y"], [""], [1])
        self.assertIn("cannot store: UNAVAILABLE", bench.lines[0])
        self.assertTrue(bench.lines[0].endswith(
            "(nothing is stored for 1 s; lookups and loads are tried separately)"))
        bench.fake.down = None
        singles = ExistsTable(bench.pool, AtOnce(), str)
        self.assertIsNone(singles.ask("a", "r"), "it is worth asking")
        self.assertIsNone(MatchTable(bench.pool, AtOnce()).ask("r", 0, lambda: [["a"]]))
        singles.flush()
        self.assertTrue(singles.ask("a", "r"))
        transfers.load(2, ["a"], [bytearray(1)], [1])
        transfers.store(3, ["b"], [b"y"], [""], [1])
        self.assertEqual([(done.tag, done.ok) for done in transfers.finished()],
                         [(1, [False]), (2, [True]), (3, [False])])
        self.assertEqual(bench.fake.calls, ["exists", "put", "match", "exists", "get"])
        bench.now += OPTIONS.pause_first
        transfers.store(4, ["b"], [b"y"], [""], [1])
        self.assertEqual([done.ok for done in transfers.finished()], [[True]])

    def test_a_hit_that_cannot_be_loaded_is_none(self) -> None:
        bench = Bench()
        bench.fake.objects["a"] = b"x"
        bench.pool.exists(["a"])
        bench.fake.down = DOWN
        bench.pool.load(["a"], [bytearray(1)], [1])
        bench.fake.down = None
        self.assertIs(ExistsTable(bench.pool, AtOnce(), str).ask("a", "r"), False)
        self.assertEqual(MatchTable(bench.pool, AtOnce()).ask("r", 0, self.fail), 0)
        self.assertEqual(bench.pool.store(["b"], [b"y"], [""]), [True])

    def test_what_another_engine_is_writing_is_not_there_yet(self) -> None:
        bench = Bench()
        client = bench.fake.connect()
        client.put_many = lambda *_, **how: [
            True, False, moonpool.AlreadyExists("x", code="ALREADY_EXISTS"),
            moonpool.Aborted("x", code="ABORTED", reason="BEING_WRITTEN")]
        bench.pool._connect = lambda: client
        self.assertEqual(bench.pool.store(["a"] * 4, [b""] * 4, [""] * 4),
                         [True, True, True, False])
        self.assertEqual(bench.lines, [])

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

    def test_a_client_that_cannot_be_closed_is_logged(self) -> None:
        bench = Bench()
        client = bench.fake.connect()

        def fail() -> None:
            raise DOWN

        client.close = fail
        bench.pool._connect = lambda: client
        bench.pool.exists(["a"])
        bench.pool.close()
        self.assertEqual(bench.lines, ["moonpool: cannot close the client: UNAVAILABLE: no master"])

    def test_after_close_everything_misses(self) -> None:
        bench = Bench()
        bench.pool.exists(["a"])
        bench.pool.close()
        bench.pool.close()
        self.assertEqual(bench.pool.exists(["a"]), [False])
        self.assertEqual(bench.fake.calls, ["exists", "close"])
