"""The logic of moonpool.vllm, without vLLM and without a pool."""

from __future__ import annotations

import itertools
import threading
import unittest
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import moonpool
from fake_client import FakePool
from moonpool.vllm import layout
from moonpool.vllm.blocks import HostBlocks, Layer, dense_runs
from moonpool.vllm.health import Breaker, Quiet
from moonpool.vllm.lookups import ExistsTable, MatchTable
from moonpool.vllm.mover import Mover
from moonpool.vllm.options import Options
from moonpool.vllm.planner import Planner, Settings
from moonpool.vllm.pool import Pool
from moonpool.vllm.transfers import Transfers, cut
from moonpool.vllm.workers import Workers

OPTIONS = Options.parse({"masters": "nowhere:1"})
DOWN = moonpool.Unavailable("no master", code="UNAVAILABLE")


class AtOnce:
    """Workers whose tasks run when they are submitted, or by hand."""

    def __init__(self, *, by_hand: bool = False) -> None:
        self.by_hand = by_hand
        self.tasks: list[Callable[[], None]] = []

    def submit(self, task: Callable[[], None], *, urgent: bool = False) -> bool:
        if self.by_hand:
            self.tasks.append(task)
        else:
            task()
        return True

    def run(self) -> None:
        """Runs what was submitted."""
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task()

    def close(self) -> None:
        """Nothing."""


class Bench:
    """A pool with a fake client, a clock that stands still, and the lines it logged."""

    def __init__(self) -> None:
        self.fake = FakePool()
        self.now = 100.0
        self.lines: list[str] = []
        self.pool = Pool(self.fake.connect, OPTIONS, log=self.lines.append,
                         clock=lambda: self.now)


class HealthTest(unittest.TestCase):
    def test_pauses_double_until_a_success(self) -> None:
        now = 0.0
        breaker = Breaker(lambda: now, first=1.0, longest=3.0)
        self.assertFalse(breaker.open)
        pauses = []
        for _ in range(4):
            pauses.append(breaker.failed())
            self.assertTrue(breaker.open)
            now += pauses[-1]
            self.assertFalse(breaker.open)
        self.assertEqual(pauses, [1.0, 2.0, 3.0, 3.0])
        self.assertTrue(breaker.worked())
        self.assertFalse(breaker.worked())
        self.assertEqual(breaker.failed(), 1.0)

    def test_calls_under_way_together_are_one_outage(self) -> None:
        breaker = Breaker(lambda: 5.0, first=1.0, longest=8.0)
        self.assertEqual([breaker.failed() for _ in range(3)], [1.0, 1.0, 1.0])

    def test_lines_of_a_kind_are_rare_and_counted(self) -> None:
        now, lines = 0.0, []
        quiet = Quiet(lines.append, lambda: now, interval=10.0)
        for _ in range(3):
            quiet.say("a", "one")
        quiet.say("b", "two")
        now = 11.0
        quiet.say("a", "one")
        self.assertEqual(lines, ["one", "two", "one (2 more like it)"])


class OptionsTest(unittest.TestCase):
    def test_a_misspelt_option_names_the_nearest(self) -> None:
        with self.assertRaisesRegex(ValueError, "did you mean 'replicas'"):
            Options.parse({"masters": "a:1", "replica": 2})

    def test_without_masters_it_says_where_to_name_them(self) -> None:
        with self.assertRaisesRegex(ValueError, "MOONPOOL_MASTER"):
            Options.parse({"masters": ""})

    def test_senseless_values_are_refused(self) -> None:
        for wrong in ({"threads": 0}, {"timeout": 0}, {"save": "some"}, {"max_pinned": 2}):
            with self.assertRaises(ValueError):
                Options.parse({"masters": "a:1", **wrong})


class LayoutTest(unittest.TestCase):
    def test_any_difference_is_another_namespace(self) -> None:
        fields = {"model": "/models/llama-3", "dtype": "bfloat16", "tp": 1}
        names = {layout.Layout({**fields, **change}).namespace("vllm")
                 for change in ({}, {"tp": 2}, {"dtype": "float32"}, {"extra": ""})}
        self.assertEqual(len(names), 4)
        self.assertTrue(all(name.startswith("vllm/llama-3.") for name in names), names)

    def test_the_last_segment_of_a_key_is_the_hash(self) -> None:
        key = layout.block_key(layout.shard_part(3, 1), bytes.fromhex("00ff10"))
        self.assertEqual(key, "t3p1/00ff10")
        self.assertEqual(bytes.fromhex(key.rsplit("/", 1)[1]), bytes.fromhex("00ff10"))

    def test_private_hashes_are_refused_with_the_way_out(self) -> None:
        layout.check_hashes("sha256_cbor", root_known=True, allow_private=False)
        layout.check_hashes("xxhash", root_known=False, allow_private=True)
        with self.assertRaisesRegex(layout.PrivateHashes, "prefix-caching-hash-algo sha256_cbor"):
            layout.check_hashes("sha256", root_known=True, allow_private=False)
        with self.assertRaisesRegex(layout.PrivateHashes, "PYTHONHASHSEED"):
            layout.check_hashes("xxhash_cbor", root_known=False, allow_private=False)


class BlocksTest(unittest.TestCase):
    def test_runs_cover_each_byte_once(self) -> None:
        sizes = (2, 3, 4)
        for order in itertools.permutations(range(3)):
            strides, step = [0] * 3, 1
            for dim in order:
                strides[dim], step = step, step * sizes[dim]
            self.assertEqual(dense_runs(sizes, strides, 2), [(0, 48)], order)
        # [head, token, content] of a cache whose heads are apart
        self.assertEqual(dense_runs((2, 3, 4), (100, 4, 1), 2), [(0, 24), (200, 24)])
        self.assertEqual(dense_runs((1, 3, 2), (7, 10, 1), 1), [(0, 2), (10, 2), (20, 2)])

    def test_neighbours_that_move_together_are_one_run(self) -> None:
        def at(address: int, nbytes: int, owner: Any) -> tuple[int, int]:
            return address, nbytes

        apart = HostBlocks([Layer(0, 10, ((0, 10),)), Layer(1000, 10, ((0, 10),))], at)
        self.assertEqual(apart.buffers(2), [(20, 10), (1020, 10)])
        packed = HostBlocks([Layer(0, 20, ((0, 10),)), Layer(10, 20, ((0, 10),))], at)
        self.assertEqual((packed.pieces_per_block, packed.block_bytes), (1, 20))
        self.assertEqual(packed.pieces([1, 3])[0:2], [[(20, 20)], [(60, 20)]])


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
        bench.now += OPTIONS.backoff
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


@dataclass
class FakeRequest:
    """vLLM's request, as far as it is used."""

    request_id: str
    num_tokens: int
    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    block_hashes: list[bytes] = field(default_factory=list)


def request_of(tokens: int, name: str = "r") -> FakeRequest:
    """A request of 4-token blocks, hash i is the byte i."""
    return FakeRequest(name, tokens, tokens, 0, [bytes([i]) for i in range(tokens // 4)])


class Pinned:
    """Counts pins."""

    def __init__(self) -> None:
        self.count: Counter[int] = Counter()

    def pin(self, blocks: list[int]) -> None:
        self.count.update(blocks)

    def unpin(self, blocks: list[int]) -> None:
        self.count.subtract(blocks)
        self.count += Counter()


class PlannerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.pins = Pinned()

    def planner(self, **changes: Any) -> Planner:
        settings = Settings(block_tokens=4, hash_tokens=4, parts=["t0p0"], ranks=1, loads=True,
                            saves=True, prompt_only=False, max_pinned=100)
        for name, value in changes.items():
            setattr(settings, name, value)
        return Planner(settings, MatchTable(self.bench.pool, AtOnce()), self.pins)

    def store(self, *numbers: int) -> None:
        self.bench.fake.objects |= {f"t0p0/{n:02x}": b"" for n in numbers}

    def match(self, planner: Planner, request: FakeRequest, computed: int = 0) -> int | None:
        first = planner.matched(request, computed)
        return planner.matched(request, computed)[0] if first[0] is None else first[0]

    def test_asks_in_the_background_and_loads_what_is_there(self) -> None:
        self.store(0, 1, 2)
        planner, request = self.planner(), request_of(20)
        self.assertEqual(planner.matched(request, 4), (None, False))
        self.assertEqual(planner.matched(request, 4), (8, True))
        planner.allocated(request, [10, 11, 12, 13, 14], 8)
        loads, saves = planner.plan({}, lambda name: None)
        self.assertEqual([(x.request, x.blocks, x.hashes) for x in loads],
                         [("r", [11, 12], [b"\x01", b"\x02"])])
        self.assertEqual((saves, planner.saving), ([], False))

    def test_the_last_token_is_always_computed(self) -> None:
        self.store(0, 1)
        self.assertEqual(self.match(self.planner(), request_of(8)), 4)
        self.assertEqual(self.match(self.planner(), request_of(9)), 8)
        self.assertEqual(self.match(self.planner(), request_of(4)), 0)

    def test_saves_whole_blocks_that_hold_until_all_ranks_are_done(self) -> None:
        planner, request = self.planner(ranks=2), request_of(10)
        self.assertEqual(self.match(planner, request), 0)
        planner.allocated(request, [5, 6, 7], 0)
        _, (save,) = planner.plan({"r": 6}, lambda name: [5, 6, 7])
        self.assertEqual((save.blocks, save.hashes, save.parent), ([5], [b"\0"], b""))
        request.num_computed_tokens = 6
        _, (second,) = planner.plan({"r": 4}, lambda name: [5, 6, 7])
        self.assertEqual((second.blocks, second.hashes, second.parent), ([6], [b"\1"], b"\0"))
        planner.ended("r")
        planner.report({save.job: 1}, [])
        self.assertEqual(self.pins.count, {5: 1, 6: 1})
        planner.report({save.job: 1, second.job: 2}, [])
        self.assertEqual((self.pins.count, planner.saving), ({}, False))

    def test_what_is_loaded_is_not_saved_again_unless_it_was_lost(self) -> None:
        self.store(0, 1)
        planner, request = self.planner(), request_of(13)
        self.assertEqual(self.match(planner, request), 8)
        planner.allocated(request, [1, 2, 3], 8)
        request.num_computed_tokens = 8
        _, (save,) = planner.plan({"r": 5}, lambda name: [1, 2, 3])
        self.assertEqual((save.blocks, save.parent), ([3], b"\1"))
        planner.report({}, ["r"])
        request.num_computed_tokens = 0
        self.assertEqual(planner.matched(request, 0), (0, False))
        _, (save,) = planner.plan({"r": 13}, lambda name: [1, 2, 3])
        self.assertEqual(save.blocks, [1, 2, 3])

    def test_saves_hold_a_bounded_part_of_the_cache(self) -> None:
        planner, request = self.planner(max_pinned=2), request_of(16)
        planner.allocated(request, [1, 2, 3, 4], 0)
        _, (save,) = planner.plan({"r": 16}, lambda name: [1, 2, 3, 4])
        self.assertEqual(save.blocks, [1, 2])
        self.assertEqual(planner.plan({"r": 1}, lambda name: [1, 2, 3, 4]), ([], []))
        planner.report({save.job: 1}, [])
        _, (save,) = planner.plan({"r": 16}, lambda name: [1, 2, 3, 4])
        self.assertEqual((save.blocks, save.parent), ([3, 4], b"\1"))

    def test_prompt_only_and_finer_hashes(self) -> None:
        planner, request = self.planner(prompt_only=True, hash_tokens=2), request_of(16)
        request.block_hashes = [bytes([i]) for i in range(8)]
        request.num_prompt_tokens = 9
        planner.allocated(request, [1, 2, 3, 4], 0)
        _, (save,) = planner.plan({"r": 16}, lambda name: [1, 2, 3, 4])
        self.assertEqual((save.blocks, save.hashes), ([1, 2], [b"\1", b"\3"]))

    def test_a_consumer_saves_nothing_and_a_producer_loads_nothing(self) -> None:
        self.store(0, 1)
        planner, request = self.planner(saves=False), request_of(12)
        planner.allocated(request, [1, 2, 3], 0)
        self.assertEqual(planner.plan({"r": 12}, lambda name: [1, 2, 3]), ([], []))
        self.assertEqual(self.planner(loads=False).matched(request, 0), (0, False))


class MoverTest(unittest.TestCase):
    def mover(self, bench: Bench, **changes: Any) -> tuple[Mover, bytearray]:
        memory = bytearray(range(40))

        def at(address: int, nbytes: int, owner: Any) -> memoryview:
            return memoryview(memory)[address : address + nbytes]

        blocks = HostBlocks([Layer(0, 4, ((0, 4),)), Layer(20, 4, ((0, 4),))], at)
        return Mover(blocks, Transfers(bench.pool, AtOnce(), slice_bytes=8), "t0p0",
                     **changes), memory

    def test_what_one_engine_saves_another_loads(self) -> None:
        from moonpool.vllm.planner import Load, Save
        bench = Bench()
        mover, memory = self.mover(bench)
        mover.save(Save(7, [1, 2], [b"a", b"b"], b"z"))
        self.assertEqual(mover.ended().saved, {7: 1})
        self.assertEqual(bench.fake.parents, {"t0p0/61": "t0p0/7a", "t0p0/62": "t0p0/61"})
        self.assertEqual(bench.fake.objects["t0p0/61"], bytes([4, 5, 6, 7, 24, 25, 26, 27]))
        bench.fake.lost.add("t0p0/62")
        other, other_memory = self.mover(bench)
        other.load(Load("r", [3, 4], [b"a", b"b"]))
        ended = other.ended()
        self.assertEqual((ended.loaded, ended.lost_blocks, ended.lost_requests),
                         ({"r"}, {4}, {"r"}))
        self.assertEqual(other_memory[12:16] + other_memory[32:36], bytes(memory[4:8]
                         + memory[24:28]))

    def test_a_replica_rank_reports_without_writing(self) -> None:
        from moonpool.vllm.planner import Save
        bench = Bench()
        mover, _ = self.mover(bench, writes=False)
        mover.save(Save(7, [1], [b"a"], b""))
        self.assertEqual((mover.ended().saved, mover.ended().saved), ({7: 1}, {}))
        self.assertEqual(bench.fake.calls, [])
