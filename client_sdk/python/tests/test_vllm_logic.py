"""What moonpool.vllm decides, without vLLM and without a pool."""

from __future__ import annotations

import itertools
import unittest
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from moonpool.vllm import layout
from moonpool.vllm.blocks import HostBlocks, Layer, dense_runs
from moonpool.vllm.lookups import MatchTable
from moonpool.vllm.mover import Mover
from moonpool.vllm.options import Options
from moonpool.vllm.planner import Planner, Settings
from moonpool.vllm.transfers import Transfers
from vllm_bench import AtOnce, Bench


class OptionsTest(unittest.TestCase):
    def test_a_misspelt_option_names_the_nearest(self) -> None:
        with self.assertRaisesRegex(ValueError, "did you mean 'replicas'"):
            Options.parse({"masters": "a:1", "replica": 2})

    def test_without_masters_it_says_where_to_name_them(self) -> None:
        with self.assertRaisesRegex(ValueError, "MOONPOOL_MASTER"):
            Options.parse({"masters": ""})

    def test_senseless_values_are_refused(self) -> None:
        for wrong in ({"threads": 0}, {"timeout": 0}, {"save": "some"}, {"max_pinned": 2},
                      {"path": "foo"}, {"hold": -1}, {"cp_kv_cache_interleave_size": -1}):
            with self.assertRaisesRegex(ValueError, next(iter(wrong))):
                Options.parse({"masters": "a:1", **wrong})

    def test_values_of_another_type_are_refused_by_name(self) -> None:
        for name, value in {"queue": "1024", "threads": 4.0, "replicas": "2", "verify": "false",
                            "timeout": "5", "hold": True, "model": 7, "masters": ["a:1", 2],
                            "slice_bytes": None}.items():
            with self.subTest(name), self.assertRaisesRegex(ValueError, f"{name} must be "):
                Options.parse({"masters": "a:1", name: value})
        options = Options.parse({"masters": ["a:1", "b:1"], "timeout": 5, "verify": False})
        self.assertEqual((options.timeout, options.verify), (5, False))


class LayoutTest(unittest.TestCase):
    def test_any_difference_is_another_namespace(self) -> None:
        fields = {"model": "/models/llama-3", "dtype": "bfloat16", "tp": 1}
        names = {layout.Layout({**fields, **change}).namespace("vllm")
                 for change in ({}, {"tp": 2}, {"dtype": "float32"}, {"extra": ""})}
        self.assertEqual(len(names), 4)
        self.assertTrue(all(name.startswith("vllm/llama-3.") for name in names), names)

    def test_configurations_are_equal_wherever_they_lie(self) -> None:
        config = {"_name_or_path": "/a", "transformers_version": "5.1", "layers": 2,
                  "rope": {"theta": 1e4, "short": [1.0, 2.0]}, "label": {0: "x"}, "dtype": object}
        digest = layout.config_digest(config)
        self.assertEqual(digest, layout.config_digest(
            {**config, "_name_or_path": "/b", "transformers_version": "5.2", "_hash": "0"}))
        for change in ({"layers": 3}, {"rope": {"theta": 1e6, "short": [1.0, 2.0]}},
                       {"rope": {"theta": 1e4, "short": [1.0, 3.0]}}):
            self.assertNotEqual(digest, layout.config_digest({**config, **change}))
        self.assertNotEqual(digest, layout.config_digest(config, config))

    def test_the_last_segment_of_a_key_is_the_hash(self) -> None:
        key = layout.block_key(layout.shard_part(3, 1), bytes.fromhex("00ff10"))
        self.assertEqual(key, "t3p1/00ff10")
        self.assertEqual(bytes.fromhex(key.rsplit("/", 1)[1]), bytes.fromhex("00ff10"))

    def test_private_hashes_are_refused_with_the_way_out(self) -> None:
        layout.check_hashes("sha256_cbor", root_known=True, allow_private=False)
        layout.check_hashes("xxhash", root_known=False, allow_private=True)
        with self.assertRaisesRegex(layout.PrivateHashes, "prefix-caching-hash-algo sha256_cbor"):
            layout.check_hashes("sha256", root_known=True, allow_private=False)
        with self.assertRaisesRegex(layout.PrivateHashes, "md5 is none that is known here"):
            layout.check_hashes("md5", root_known=False, allow_private=False)
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

    def test_abandoned_blocks_are_free_before_workers_have_stopped(self) -> None:
        planner, request = self.planner(), request_of(8)
        planner.allocated(request, [1, 2], 0)
        _, (save,) = planner.plan({"r": 8}, lambda name: [1, 2])
        self.assertFalse(planner.take_cut_off())
        planner.abandon()
        self.assertEqual((self.pins.count, planner.saving), ({}, False))
        self.assertEqual([planner.take_cut_off(), planner.take_cut_off()], [True, False])
        planner.report({save.job: 1}, [])  # a worker that had ended it
        self.assertEqual(self.pins.count, {})
        request.num_computed_tokens = 0  # what was cut off is saved when it is computed again
        self.assertEqual(planner.plan({"r": 8}, lambda name: [1, 2])[1][0].blocks, [1, 2])
        planner.take_cut_off()
        planner.report({save.job + 1: 1}, [])
        planner.abandon()
        self.assertFalse(planner.take_cut_off(), "nothing was under way")

    def test_after_leaving_nothing_is_asked_loaded_or_saved(self) -> None:
        self.store(0, 1)
        planner, request = self.planner(), request_of(12)
        self.assertEqual(planner.matched(request, 0), (None, False))
        self.assertEqual([planner.leave(), planner.leave()], [True, False])
        self.assertEqual(planner.matched(request, 0), (0, False))
        planner.allocated(request, [1, 2, 3], 0)
        self.assertEqual(planner.plan({"r": 12}, lambda name: [1, 2, 3]), ([], []))

    def test_an_abort_while_blocks_are_loaded_leaves_nothing_behind(self) -> None:
        self.store(0, 1)
        planner, request = self.planner(), request_of(12)
        self.assertEqual(self.match(planner, request), 8)
        planner.allocated(request, [1, 2, 3], 8)
        planner.ended("r")
        (load,), saves = planner.plan({}, lambda name: None)  # vLLM holds its blocks until it ends
        self.assertEqual((load.blocks, saves), ([1, 2], []))
        planner.report({}, ["r"])
        self.assertEqual(self.match(planner, request_of(12)), 8)

    def test_a_preemption_leaves_saves_alone_and_is_loaded_again(self) -> None:
        planner, request = self.planner(), request_of(13)
        self.assertEqual(self.match(planner, request), 0)
        planner.allocated(request, [1, 2, 3, 4], 0)
        _, (save,) = planner.plan({"r": 13}, lambda name: [1, 2, 3, 4])
        request.num_computed_tokens = 0  # preempted; its blocks are pinned for the save
        self.assertEqual(self.pins.count, {1: 1, 2: 1, 3: 1})
        self.store(0, 1, 2)
        planner.report({save.job: 1}, [])
        self.assertEqual(self.match(planner, request), 12)
        planner.allocated(request, [7, 8, 9, 5], 12)
        (load,), saves = planner.plan({}, lambda name: None)
        self.assertEqual((load.blocks, saves, self.pins.count), ([7, 8, 9], [], {}))

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

    def test_what_is_cut_off_has_ended(self) -> None:
        transfers = mock.Mock()
        Mover(HostBlocks([], self.fail), transfers, "t0p0").cut_off()
        self.assertEqual(transfers.method_calls, [mock.call.cut_off(), mock.call.drain()])

    def test_calls_get_plain_lists(self) -> None:
        from moonpool.vllm.planner import Load, Save
        bench, given = Bench(), []
        mover, _ = self.mover(bench)
        client = bench.fake.connect()

        def put(keys: Any, values: Any, **how: Any) -> Any:
            given.append(values)
            return type(client).put_many(client, keys, values, **how)

        def get(keys: Any, targets: Any, **how: Any) -> Any:
            given.append(targets)
            return type(client).get_into_many(client, keys, targets, **how)

        client.put_many, client.get_into_many = put, get
        bench.pool._connect = lambda: client
        mover.save(Save(7, [1], [b"a"], b""))
        mover.load(Load("r", [2], [b"a"]))
        self.assertEqual([type(x) for x in given] + [type(x[0]) for x in given], [list] * 4)

    def test_a_replica_rank_reports_without_writing(self) -> None:
        from moonpool.vllm.planner import Save
        bench = Bench()
        mover, _ = self.mover(bench, writes=False)
        mover.save(Save(7, [1], [b"a"], b""))
        self.assertEqual((mover.ended().saved, mover.ended().saved), ({7: 1}, {}))
        self.assertEqual(bench.fake.calls, [])
