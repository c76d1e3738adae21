#!/usr/bin/env python3
"""The tier on plain host memory, against a real pool; no GPU, and no engine.

    PYTHONPATH=build/dev/python tests/engines/vllm_tier_test.py

With a Python that has vLLM the class that vLLM loads is tested, too, by vLLM's own types.
"""

from __future__ import annotations

import sys
import threading
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import moonpool
from moonpool.vllm.options import Options
from moonpool.vllm.pool import Pool, connector
from moonpool.vllm.tier_core import TierCore, name_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
import pool as harness  # noqa: E402

try:
    from moonpool.vllm import tier as vllm_tier
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_offload import config as vllm_config
    from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext
    from vllm.v1.kv_offload.tiering.base import TransferJob
    from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
    from vllm_fixture import config_of, model_folder
except ImportError:
    vllm_tier = None

ROWS, ROW_BYTES = 16, 64 << 10


def rows_of(fill: Callable[[int], int] = lambda row: 0) -> memoryview:
    """Host memory as vLLM's primary tier shows it: row r is full of fill(r)."""
    data = bytearray(b"".join(bytes([fill(row)]) * ROW_BYTES for row in range(ROWS)))
    return memoryview(data).cast("B", (ROWS, ROW_BYTES))


def row(view: memoryview, index: int) -> bytes:
    """The bytes of a row."""
    return bytes(view.cast("B")[index * ROW_BYTES : (index + 1) * ROW_BYTES])


def key_of(number: int, group: int = 0) -> bytes:
    """vLLM's offload key of block `number`."""
    return bytes([number]) * 32 + group.to_bytes(4, "big")


def settled(ask: Callable[[], Any], pending: Any) -> Any:
    """The first answer that is not `pending`."""
    for _ in range(10_000):
        if (answer := ask()) is not pending:
            return answer
        threading.Event().wait(0.001)
    raise AssertionError("no answer")


class PoolCase(unittest.TestCase):
    """Each test has a namespace of its own in one pool."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.dev = harness.Pool()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.dev.close()

    def setUp(self) -> None:
        self.namespace = self.id().rsplit(".", 1)[-1]
        self.lines: list[str] = []


class TierCoreTest(PoolCase):
    @contextmanager
    def core(self, view: memoryview) -> Iterator[TierCore]:
        options = Options.parse({"masters": self.dev.master, "slice_bytes": 4 * ROW_BYTES})
        log = self.lines.append
        pool = Pool(connector(self.namespace, "test", options, log), options, log=log)
        core = TierCore(view, pool, options)
        try:
            yield core
        finally:
            core.close()
            view.release()  # nothing refers to the rows any more

    def look(self, core: TierCore, keys: list[bytes], request: str = "r") -> list[bool]:
        def ask() -> list[bool] | None:
            answers = [core.lookup(key, request) for key in keys]
            core.end_step()
            return None if None in answers else answers

        return settled(ask, None)

    def test_what_one_engine_stores_another_finds_and_loads(self) -> None:
        keys = [key_of(n) for n in range(1, 9)]
        with self.core(rows_of(lambda row: 100 + row)) as writer:
            writer.store(1, keys, range(2, 10))
            writer.drain()
            ((done, of_job),) = writer.finished()
            self.assertEqual((done.ok, of_job), ([True] * 8, keys))
        view = rows_of()
        with self.core(view) as reader:
            self.assertEqual(self.look(reader, [*keys, key_of(99)]), [True] * 8 + [False])
            reader.load(1, keys, range(8))
            reader.drain()
            ((done, _),) = reader.finished()
            self.assertEqual(done.ok, [True] * 8)
            self.assertEqual(done.moved_bytes, 8 * ROW_BYTES)
            for index in range(8):
                self.assertEqual(row(view, index), bytes([102 + index]) * ROW_BYTES)
            self.assertEqual(row(view, 8), bytes(ROW_BYTES))
        self.assertEqual(self.lines, [])

    def test_a_block_that_is_gone_fails_alone_and_is_not_found_again(self) -> None:
        keys = [key_of(n) for n in range(3)]
        view = rows_of(lambda row: row)
        with self.core(view) as core:
            core.store(1, keys, range(3))
            core.drain()
            core.finished()
            self.assertEqual(self.look(core, keys), [True] * 3)
            with moonpool.Client(self.dev.master, namespace=self.namespace) as client:
                client.remove(name_of(keys[1]))
            core.load(2, keys, [5, 6, 7])
            core.drain()
            ((done, _),) = core.finished()
            self.assertEqual(done.ok, [True, False, True])
            self.assertEqual([core.lookup(key, "r") for key in keys], [True, False, True])
            self.assertEqual(row(view, 7), bytes([2]) * ROW_BYTES)

    def test_groups_do_not_meet_and_parents_are_of_the_chain(self) -> None:
        ends = {key_of(n, group): 16 * (n + 1) for n in range(4) for group in range(2)}
        with self.core(rows_of()) as core:
            core.store(1, [key_of(0), key_of(2), key_of(0, 1)], range(3), "r", ends.get)
            core.store(2, [key_of(3), key_of(1, 1)], range(2), "r", ends.get)
            core.drain()
            self.assertEqual(self.look(core, [key_of(0), key_of(1), key_of(1, 1)]),
                             [True, False, True])
            self.assertEqual(core._parents([key_of(3), key_of(2)], "s", ends.get),
                             [name_of(key_of(2)), ""])

    def test_a_pool_that_is_not_there_is_a_miss(self) -> None:
        options = Options.parse({"masters": "127.0.0.1:1"})
        log = self.lines.append
        pool = Pool(connector("x", "", options, log), options, log=log)
        view = rows_of()
        core = TierCore(view, pool, options)
        self.assertEqual(self.look(core, [key_of(1)]), [False])
        core.store(1, [key_of(1)], [0])
        core.load(2, [key_of(1)], [0])
        self.assertEqual([done.ok for done, _ in core.finished()], [[False], [False]])
        core.close()
        self.assertEqual(len(self.lines), 1)
        self.assertIn("127.0.0.1:1", self.lines[0])


@unittest.skipIf(vllm_tier is None, "this Python has no vLLM")
class MoonpoolTierTest(PoolCase):
    def setUp(self) -> None:
        super().setUp()
        kv_cache_utils.init_none_hash(get_hash_fn_by_name("sha256_cbor"))

    def make(self, view: memoryview, **options: Any) -> Any:
        """A tier made the way vLLM makes it."""
        config = vllm_config.OffloadingConfig(
            groups=(vllm_config.OffloadingGroupConfig(16, ("layer.0",), 0),),
            worker_kv_bytes_per_block=ROW_BYTES,
            enable_kv_cache_events=True,
            extra_config={},
            engine_id="engine",
            model=vllm_config.OffloadingModelConfig(self.namespace, "bfloat16"),
            cache=vllm_config.OffloadingCacheConfig(16, 1),
            parallel=vllm_config.OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True),
            kv_cache_layout="LBHNC",
        )
        spec = SimpleNamespace(
            config=config, kv_events_config=SimpleNamespace(enable_kv_cache_events=True))
        made = SecondaryTierFactory.create_secondary_tier(
            {"type": "moonpool", "masters": self.dev.master, "model": "m", "revision": "1",
             **options}, view, spec)
        self.addCleanup(made.shutdown)
        return made

    def job(self, number: int, keys: list[bytes], rows: list[int], load: bool) -> Any:
        context = ReqContext("r")
        for index, key in enumerate(keys):
            context.set_offload_key_position(key, 16 * (index + 1))
        return TransferJob(number, keys, rows, load, context)

    def look(self, made: Any, key: bytes) -> Any:
        def ask() -> Any:
            answer = made.lookup(key, ReqContext("r"))
            made.on_schedule_end(ScheduleEndContext((), ()))
            return answer

        return settled(ask, LookupResult.RETRY)

    def test_it_says_at_start_whether_a_master_answers(self) -> None:
        for masters, said in ((self.dev.master, f"the pool at {self.dev.master} answers"),
                              ("127.0.0.1:1", "cannot connect: UNAVAILABLE")):
            with self.subTest(masters), self.assertLogs("vllm.moonpool", "INFO") as logged:
                self.make(rows_of(), masters=masters).shutdown()
            self.assertTrue(any(said in line for line in logged.output), logged.output)

    def test_by_vllms_own_types(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        register()
        keys = [key_of(n) for n in range(3)]
        writer = self.make(rows_of(lambda row: row), enable_kv_events=True)
        writer.on_new_request(ReqContext("r"))
        self.assertIs(writer.lookup(keys[0], ReqContext("r")), LookupResult.RETRY)
        writer.submit_store(self.job(1, keys, [1, 2, 3], False))
        self.assertTrue(writer.has_pending_work() or writer.get_finished_jobs())
        writer._core.drain()
        list(writer.get_finished_jobs())
        self.assertEqual([list(event.keys) for event in writer.take_events()], [keys])
        self.assertEqual(list(writer.take_events()), [])

        view = rows_of()
        reader = self.make(view)
        reader.on_new_request(ReqContext("r"))
        self.assertIs(self.look(reader, keys[2]), LookupResult.HIT)
        self.assertIs(self.look(reader, key_of(9)), LookupResult.MISS)
        reader.submit_load(self.job(1, [*keys, key_of(9)], [4, 5, 6, 7], True))
        reader._core.drain()
        (result,) = reader.get_finished_jobs()
        self.assertEqual((result.job_id, result.success, result.successful_keys),
                         (1, False, keys))
        self.assertEqual(result.transfer_bytes, 3 * ROW_BYTES)
        self.assertEqual(row(view, 6), bytes([3]) * ROW_BYTES)
        reader.on_request_finished(ReqContext("r"))

    def test_private_hashes_turn_the_tier_off(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        kv_cache_utils.init_none_hash(get_hash_fn_by_name("sha256"))
        made = self.make(rows_of())
        with self.assertLogs("vllm.moonpool", "ERROR") as logged:
            made.on_new_request(ReqContext("r"))
        self.assertIn("sha256_cbor", logged.output[0])
        self.assert_off(made)

    def test_a_reset_for_other_weights_ends_all_sharing(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        for fixed in (True, False):
            made = self.make(rows_of(), fixed_weights=fixed)
            made.on_new_request(ReqContext("r"))
            made.submit_store(self.job(1, [key_of(1)], [0], False))
            made._core.drain()
            self.assertEqual([r.success for r in made.get_finished_jobs()], [True])
            self.assertIs(self.look(made, key_of(1)), LookupResult.HIT)
            made.drain_jobs()
            self.assertIs(self.look(made, key_of(1)),
                          LookupResult.HIT if fixed else LookupResult.MISS)
        made.submit_store(self.job(2, [key_of(2)], [0], False))
        self.assertEqual([(r.success, r.transfer_bytes) for r in made.get_finished_jobs()],
                         [(False, 0)])

    def test_weights_that_nobody_tells_must_be_named(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        for unnamed in ({"model": ""}, {"revision": ""}):
            with self.assertRaisesRegex(ValueError, '"model" and "revision"'):
                self.make(rows_of(), **unnamed)
        with model_folder() as folder:
            told = config_of(folder)
            with mock.patch.object(vllm_tier, "get_current_vllm_config_or_none", lambda: told):
                made = self.make(rows_of(), model="", revision="")
        layout = vllm_tier.layout_of(made._spec, made._options, ROW_BYTES, made._run)
        self.assertEqual((layout.fields["model"], layout.fields["max_model_len"]), (folder, 512))

    def test_what_vllm_does_not_tell_is_named_with_the_way_out(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        with self.assertRaises(ValueError) as raised:
            self.make(rows_of(), revision="")
        manual = Path(__file__).resolve().parents[2] / "docs" / "VLLM.md"
        for option in vllm_tier.UNTOLD:
            self.assertIn(option, str(raised.exception))
            self.assertIn(f"`{option}`", manual.read_text())

    def test_an_algorithm_that_nobody_knows_turns_the_tier_off(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        kv_cache_utils.NONE_HASH = b"of a later vLLM"
        made = self.make(rows_of(), enable_kv_events=True)
        with self.assertLogs("vllm.moonpool", "ERROR") as logged:
            made.on_new_request(ReqContext("r"))
            made.on_new_request(ReqContext("s"))
        self.assertEqual(len(logged.output), 1)
        self.assertIn("an unknown algorithm", logged.output[0])
        self.assert_off(made)

    def assert_off(self, made: Any) -> None:
        """Nothing is found, and every job ends, without success and without an event."""
        self.assertIs(made.lookup(key_of(1), ReqContext("r")), LookupResult.MISS)
        made.submit_store(self.job(11, [key_of(1), key_of(2)], [0, 1], False))
        made.submit_load(self.job(12, [key_of(1)], [0], True))
        self.assertEqual([(r.job_id, r.success, r.transfer_bytes)
                          for r in made.get_finished_jobs()], [(11, False, 0), (12, False, 0)])
        self.assertEqual((made.has_pending_work(), list(made.take_events())), (False, []))

    def test_no_exception_reaches_the_scheduler(self) -> None:
        from moonpool.vllm.plugin import register
        register()

        def fail(*_: Any) -> Any:
            raise TypeError("a bug")

        calls: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "lookup": (LookupResult.MISS, lambda made: made.lookup(key_of(1), ReqContext("r"))),
            "end_step": (None, lambda made: made.on_schedule_end(ScheduleEndContext((), ()))),
            "forget": (None, lambda made: made.on_request_finished(ReqContext("r"))),
            "finished": ((), lambda made: made.get_finished_jobs()),
            "load": (None, lambda made: made.submit_load(self.job(1, [key_of(1)], [0], True))),
            "store": (None, lambda made: made.submit_store(self.job(1, [key_of(1)], [0], False))),
        }
        for name, (instead, call) in calls.items():
            made = self.make(rows_of())
            with self.subTest(name), self.assertLogs("vllm.moonpool", "ERROR") as logged:
                with mock.patch.object(made._core, name, fail):
                    self.assertEqual(call(made), instead)
                self.assertIn("a bug", logged.output[0])
                if name in ("load", "store"):
                    self.assertEqual([(r.job_id, r.success) for r in made.get_finished_jobs()],
                                     [(1, False)])
                self.assert_off(made)
        made = self.make(rows_of())
        with mock.patch.object(made, "_check_hashes", fail), self.assertLogs("vllm.moonpool"):
            made.on_new_request(ReqContext("r"))
        self.assert_off(made)

    def test_only_what_is_in_the_pool_is_announced(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        made = self.make(rows_of(), enable_kv_events=True)
        made.on_new_request(ReqContext("r"))
        keys = [key_of(n) for n in range(3)]
        outcomes = [[True, False, False], [False] * 3]
        with mock.patch.object(made._core._pool, "store", lambda *_: outcomes.pop(0)):
            for number in (1, 2):
                made.submit_store(self.job(number, keys, [0, 1, 2], False))
                made._core.drain()
                self.assertEqual([r.success for r in made.get_finished_jobs()], [False])
        self.assertEqual([list(event.keys) for event in made.take_events()], [keys[:1]])

    def test_a_misspelt_option_is_an_error_at_start(self) -> None:
        from moonpool.vllm.plugin import register
        register()
        with self.assertRaisesRegex(ValueError, "did you mean 'replicas'"):
            self.make(rows_of(), replica=2)


if __name__ == "__main__":
    unittest.main()
