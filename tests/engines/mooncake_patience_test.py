#!/usr/bin/env python3
"""mooncake.store on Moonpool: callers that give up their calls. Needs no pool.

    python3 tests/engines/mooncake_patience_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). LMCache itself is in
mooncake_lmcache_test.py.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import unittest
import unittest.mock

import mooncake_case as case
from mooncake._patience import Patience, patience_of_lmcache
from mooncake._pool import Pool
from mooncake._staging import Staging
from mooncake.store import MooncakeDistributedStore
from mooncake_case import Region


class Patiences(unittest.TestCase):
    def setUp(self) -> None:
        self.now = 100.0
        patch = unittest.mock.patch("mooncake._patience.time")
        patch.start().monotonic.side_effect = lambda: self.now
        self.addCleanup(patch.stop)
        self.stored: list[bytes] = []
        self.region = Region(b"A" * 64)
        self.client = unittest.mock.Mock()
        self.client.put_many.side_effect = self.put_many

    def put_many(self, keys, values, **options) -> list[bool]:
        ctypes.memset(self.region.ptr, ord("B"), 64)
        self.stored += [bytes(value[0] if isinstance(value, list) else value) for value in values]
        return [True] * len(keys)

    def new_store(self, patience: Patience, staging: int = 1 << 20) -> MooncakeDistributedStore:
        store = MooncakeDistributedStore()
        store._pool = Pool(self.client, 10, patience, staging)
        store.is_waited_for = patience.is_endless()
        return store

    def elsewhere(self, call, *args):
        """Of another thread."""
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            return executor.submit(call, *args).result()

    def test_what_is_stored_was_copied_before(self) -> None:
        region, ptr = self.region, self.region.ptr
        for name, arguments in (
                ("put_from", ("k", ptr, 64)),
                ("batch_put_from", (["k"], [ptr], [64])),
                ("batch_put_from_multi_buffers", (["k"], [[ptr, ptr + 32]], [[32, 32]])),
                ("put", ("k", region.view())),
                ("put", ("k", region.view().toreadonly())),
                ("put_parts", ("k", region.view()[:32], region.view()[32:])),
                ("put_batch", (["k"], [region.view()]))):
            ctypes.memset(ptr, ord("A"), 64)
            with self.subTest(name):
                store = self.new_store(Patience(put=1))
                self.assertIn(self.elsewhere(getattr(store, name), *arguments), (0, [0]))
                self.assertEqual(self.stored.pop(), b"A" * 64)

    def test_nothing_is_copied_for_those_who_wait(self) -> None:
        self.new_store(Patience()).put_from("k", self.region.ptr, 64)
        self.assertEqual(self.stored, [b"B" * 64])

    def test_the_clock_starts_when_the_method_is_taken(self) -> None:
        store = self.new_store(Patience(put=1))
        taken = store.put_from
        self.now += 0.8
        self.assertEqual(self.elsewhere(taken, "k", self.region.ptr, 64), 0)
        self.now += 0.2
        with self.assertLogs("mooncake.store", "WARNING") as logged:
            self.assertEqual(self.elsewhere(taken, "k", self.region.ptr, 64), -901)
        self.assertIn("transfer_timeout", logged.output[0])
        self.assertEqual(len(self.stored), 1)
        self.assertEqual(taken("k", self.region.ptr, 64), 0, "called where it was taken: waits")

    def test_a_copy_that_took_too_long_is_not_stored(self) -> None:
        def slow(*args) -> None:
            self.now += 2

        store = self.new_store(Patience(put=1))
        with unittest.mock.patch("mooncake._staging._copy", slow):
            with self.assertLogs("mooncake.store", "WARNING"):
                self.assertEqual(self.elsewhere(store.put_from, "k", self.region.ptr, 64), -901)
        self.assertEqual(self.stored, [])

    def test_a_read_ends_while_its_caller_waits(self) -> None:
        self.client.get_into_many.return_value = [64]
        store = self.new_store(Patience(get=5))
        taken = store.get_into
        self.now += 4
        self.assertEqual(self.elsewhere(taken, "k", self.region.ptr, 64), 64)
        self.assertAlmostEqual(self.client.get_into_many.call_args.kwargs["timeout"], 0.5)
        self.now += 1
        with self.assertLogs("mooncake.store", "WARNING"):
            self.assertEqual(self.elsewhere(taken, "k", self.region.ptr, 64), -901)
        self.client.get_into_many.assert_called_once()

    def test_copies_are_bounded(self) -> None:
        store = self.new_store(Patience(put=1), staging=2 << 20)
        value = bytes(1 << 20)
        self.assertEqual(self.elsewhere(store.put_batch, list("abc"), [value] * 3), 0)
        self.assertEqual(self.client.put_many.call_count, 3, "in rounds of half of it")
        self.assertLessEqual(store._pool._staging._held, 2 << 20)
        with self.assertLogs("mooncake.store", "WARNING") as logged:
            self.assertEqual(self.elsewhere(store.put, "k", bytes(3 << 20)), -200)
        self.assertIn("staging", logged.output[0])

    def test_a_copy_waits_for_the_memory_of_others(self) -> None:
        staging = Staging(1 << 20)

        def second() -> bytes:
            with staging.copies([b"second"], self.now + 60) as copies:
                return bytes(copies[0])

        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            with staging.copies([b"first"], self.now + 60) as copies:
                waits = executor.submit(second)
                with staging.copies([b"third"], self.now) as third:
                    self.assertIsNone(third, "there is no time")
                self.assertEqual(bytes(copies[0]), b"first")
            self.assertEqual(waits.result(), b"second")

    @staticmethod
    def in_lmcache(expression: str, **local: object) -> object:
        """What an expression is in a function of LMCache's with these locals."""
        found: dict[str, object] = {}
        exec(compile(f"found['it'] = {expression}", "connector.py", "exec"),
             {"__name__": "lmcache.other.connector", "found": found} | local)
        return found["it"]

    def test_an_lmcache_that_hides_its_patience_says_it(self) -> None:
        def set_up(**config) -> None:
            self.in_lmcache("store.setup(given)", store=MooncakeDistributedStore(),
                            given={"master_server_addr": "127.0.0.1:1"} | config)

        with self.assertLogs("mooncake.store", "ERROR") as logged:
            with self.assertRaises(RuntimeError):
                set_up()
            with self.assertRaises(RuntimeError):
                set_up(put_patience=1)
        self.assertIn("mooncake_put_patience: SECONDS", logged.output[0])
        self.assertNotIn("patience", logged.output[1], "no master is there")


    def test_nothing_of_lmcache_is_read_but_its_configurations(self) -> None:
        class MooncakeStoreConfig:
            transfer_timeout = 3

            def __init__(self, **fields: object) -> None:
                object.__getattribute__(self, "__dict__").update(fields)

            def __getattribute__(self, name: str) -> object:
                raise AssertionError(f"{name} was asked for")

        class LMCacheEngineConfig(MooncakeStoreConfig):
            pass

        class Other(MooncakeStoreConfig):
            pass

        said = Patience(put=9)
        own = MooncakeStoreConfig(transfer_timeout=2)
        engines = LMCacheEngineConfig(blocking_timeout_secs=20)
        foreign = Other(transfer_timeout=1, blocking_timeout_secs=1, config=own)
        for local, expected in (
                ({"config": own, "lmcache_config": engines}, Patience(2, 20)),
                ({"self": Other(config=own), "config": engines}, Patience(2, 20)),
                ({"self": Other(config=foreign), "config": foreign, "value": own}, Patience(9, 10)),
                ({"config": MooncakeStoreConfig(), "self": object()}, Patience(9, 10)),
                ({"config": MooncakeStoreConfig(transfer_timeout="2")}, Patience(9, 10))):
            with self.subTest(local=list(local)):
                self.assertEqual(self.in_lmcache("patience_of(said)", said=said,
                                                 patience_of=patience_of_lmcache, **local),
                                 expected)


if __name__ == "__main__":
    case.run("mooncake_patience")
