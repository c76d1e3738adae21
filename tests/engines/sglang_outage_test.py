#!/usr/bin/env python3
"""moonpool.sglang where things go wrong: nothing raises, nothing waits long, nothing wrong is read.

    .../sglang/bin/python tests/engines/sglang_outage_test.py [-v] [CLASS[.TEST] ...]

Ends with 77 where there is no SGLang.
"""

from __future__ import annotations

import signal
import socket
import threading
import unittest
import unittest.mock

import sglang_fixture as fixture

fixture.require_engine()

import moonpool  # noqa: E402
import torch  # noqa: E402
from moonpool.sglang import MoonpoolHiCacheStorage  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage  # noqa: E402
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory  # noqa: E402
from pool import Pool  # noqa: E402
from sglang_fixture import WithPool, pages  # noqa: E402


class Hostile(WithPool):
    def test_objects_of_another_size_are_misses(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        keys = fixture.hashes(3)
        objects = storage._shelves["kv"].names.keys(keys)
        client = moonpool.Client(
            self.pool.master, namespace=storage.namespace, fingerprint=storage.fingerprint
        )
        self.addCleanup(client.close)
        client.put(objects[0], b"short")
        client.put(objects[1], bytes(10_000))
        client.put(objects[2], b"")
        with self.assertLogs("moonpool.sglang", "ERROR") as logs:
            for key in keys:
                self.assertEqual(storage.batch_get_v1([key], pages(host, 1)), [False])
        self.assertIn("has 5 bytes", logs.output[0])
        self.assertEqual(storage.counts()["read_failed"], 3)

    def test_indices_that_do_not_fit_the_keys_are_misses(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        with self.assertLogs("moonpool.sglang", "ERROR"):
            self.assertEqual(
                storage.batch_set_v1(fixture.hashes(3), pages(host, 2)), [False] * 3
            )
        self.assertEqual(storage.batch_exists(fixture.hashes(3)), 0)

    def test_a_page_larger_than_the_pool_is_dropped_and_true(self):
        storage = self.storage(fixture.mha_pool("page_first"))
        with self.assertLogs("moonpool.sglang", "WARNING"):
            large = torch.zeros(80 << 20, dtype=torch.uint8)
            self.assertTrue(storage.set(fixture.hashes(1)[0], large))
        self.assertEqual(storage.counts()["dropped"], 1)

    def test_a_full_pool_takes_what_is_new(self):
        # 48 pages of 4 MiB through a pool of 64 MiB.
        host = fixture.mha_pool("page_first", heads=8, head_dim=128, layers=16, page=64, tokens=512)
        storage = self.storage(host)
        source = pages(host, 8)
        for prompt in range(6):
            keys = fixture.hashes(8, f"prompt {prompt}")
            self.assertEqual(storage.batch_set_v1(keys, source), [True] * 8)
            self.assertEqual(storage.batch_exists(keys), 8)
        self.assertLess(storage.batch_exists(fixture.hashes(8, "prompt 0")), 8)
        self.assertEqual(storage.counts().get("dropped", 0), 0)

    def test_nothing_is_called_before_attach_and_after_close(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host, attach=False)
        keys = fixture.hashes(2)
        with self.assertLogs("moonpool.sglang", "ERROR"):
            self.assertEqual(storage.batch_exists(keys), 0)
        storage.register_mem_pool_host(host)
        self.assertEqual(storage.batch_set_v1(keys, pages(host, 2)), [True] * 2)
        storage.close()
        storage.close()
        self.assertEqual(storage.batch_exists(keys), 0)
        self.assertEqual(storage.batch_get_v1(keys, pages(host, 2)), [False] * 2)
        self.assertEqual(storage.batch_set_v1(keys, pages(host, 2)), [False] * 2)

    def test_a_read_that_ends_after_close_does_not_touch_the_host_pool(self):
        host = fixture.mha_pool("page_first")
        host.get_page_buffer_meta = unittest.mock.Mock(side_effect=ValueError("no addresses"))
        storage = self.storage(host)
        keys = fixture.hashes(2)
        self.assertEqual(storage.batch_set_v1(keys, pages(host, 2)), [True] * 2)
        read = storage._io.read

        def read_and_close(*args):
            done = read(*args)
            storage.close()
            return done

        target = pages(host, 2)
        before = fixture.page_bytes(host, target)
        with unittest.mock.patch.object(storage._io, "read", read_and_close):
            self.assertEqual(storage.batch_get_v1(keys, target), [False] * 2)
        self.assertEqual(fixture.page_bytes(host, target), before)

    def test_clear_removes_what_this_rank_knows(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        keys = fixture.hashes(5)
        storage.batch_set_v1(keys, pages(host, 5))
        self.assertTrue(storage.clear())
        self.assertEqual(storage.batch_exists(keys), 0)
        self.assertEqual(storage.batch_set_v1(keys, pages(host, 5)), [True] * 5)
        self.assertEqual(storage.batch_exists(keys), 5)

    def test_figures_for_sglang(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        storage.batch_set_v1(fixture.hashes(5), pages(host, 5))
        storage.batch_get_v1(fixture.hashes(5), pages(host, 5))
        stats = storage.get_stats()
        self.assertEqual((stats.backup_pgs, stats.prefetch_pgs), ([5], [5]))
        self.assertGreater(stats.prefetch_bandwidth[0], 0)
        self.assertEqual(storage.get_stats().backup_pgs, [])


class Outages(unittest.TestCase):
    """A pool of its own for each test, since each is broken."""

    EXTRA = {"lookup_timeout": 0.5, "load_timeout": 0.5, "store_timeout": 0.5, "pause_first": 60.0,
             "pause_longest": 60.0, "attach_timeout": 0.5}

    def storage(self, host, master, **extra):
        storage = MoonpoolHiCacheStorage(fixture.config(master, extra=self.EXTRA | extra))
        self.addCleanup(storage.close)
        return storage

    def assert_all_miss(self, storage, host, keys):
        self.assertEqual(storage.batch_exists(keys), 0)
        self.assertEqual(storage.batch_get_v1(keys, pages(host, len(keys))), [False] * len(keys))
        self.assertEqual(storage.batch_set_v1(keys, pages(host, len(keys))), [False] * len(keys))
        self.assertIsNone(storage.get(keys[0], host.get_dummy_flat_data_page()))
        self.assertFalse(storage.set(keys[0], host.get_data_page(0)))
        self.assertFalse(storage.exists(keys[0]))

    def test_the_whole_pool_dies_and_one_call_finds_out(self):
        host = fixture.mha_pool("page_first")
        keys = fixture.hashes(2)
        master, (node,) = fixture.breakable_pool(self)
        # Over TCP: what is mapped can be read, and is right, also when its node is dead.
        storage = self.storage(host, master.address, path="tcp")
        storage.register_mem_pool_host(host)
        self.assertEqual(storage.batch_set_v1(keys, pages(host, 2)), [True] * 2)
        master.kill()
        node.kill()
        with self.assertLogs("moonpool.sglang", "WARNING"):
            self.assert_all_miss(storage, host, keys)
        counts = storage.counts()
        # Of each kind, reads and writes, one call was made; the others missed at once.
        self.assertEqual(counts["query_not_tried"] + counts["get_not_tried"], 3)
        self.assertEqual(counts["put_not_tried"], 1)

    def test_a_dead_node_is_a_miss_and_the_pool_goes_on(self):
        host = fixture.mha_pool("page_first")
        keys = fixture.hashes(8)
        master, (first, _) = fixture.breakable_pool(self, nodes=2)
        # Longer than the half second after which the others give up: this is no outage.
        storage = self.storage(host, master.address, path="tcp", store_timeout=4.0)
        storage.register_mem_pool_host(host)
        source = pages(host, 8)
        self.assertEqual(storage.batch_set_v1(keys, source), [True] * 8)
        first.kill()
        target = pages(host, 8)
        got = storage.batch_get_v1(keys, target)
        stored, read = fixture.page_bytes(host, source), fixture.page_bytes(host, target)
        for i, ok in enumerate(got):
            self.assertTrue(not ok or read[i] == stored[i])
        # The other node takes what comes now.
        more = storage.batch_set_v1(fixture.hashes(2, "b"), pages(host, 2))
        self.assertEqual(more, [True] * 2)

    def test_close_ends_a_read_from_a_node_that_hangs(self):
        host = fixture.mha_pool("page_first")
        keys = fixture.hashes(2)
        master, (node,) = fixture.breakable_pool(self)
        storage = self.storage(host, master.address, path="tcp", load_timeout=4.9)
        storage.register_mem_pool_host(host)
        self.assertEqual(storage.batch_set_v1(keys, pages(host, 2)), [True] * 2)
        node.process.send_signal(signal.SIGSTOP)
        self.addCleanup(node.process.send_signal, signal.SIGCONT)
        got = []
        reader = threading.Thread(
            target=lambda: got.extend(storage.batch_get_v1(keys, pages(host, 2)))
        )
        reader.start()
        while reader.is_alive() and not storage._io._connection.is_in_use:
            pass
        storage.close()
        self.assertFalse(storage._io._connection.is_in_use)
        reader.join()
        self.assertEqual(got, [False] * 2)
        # It was not the read that ended by itself.
        self.assertNotIn("get_deadline_exceeded", storage.counts())
        self.assertNotIn("close_late", storage.counts())

    def test_no_master_at_attach_fails_it(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host, "127.0.0.1:1")
        with self.assertRaises((moonpool.Unavailable, moonpool.DeadlineExceeded)):
            storage.register_mem_pool_host(host)
        self.assert_all_miss(storage, host, fixture.hashes(1))

    def test_no_master_at_attach_is_taken_when_it_comes(self):
        host = fixture.mha_pool("page_first")
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{held.getsockname()[1]}"
        now = [0.0]
        storage = self.storage(host, address, pool_away_at_attach="miss")
        storage._clock = lambda: now[0]
        with self.assertLogs("moonpool.sglang", "ERROR") as logged:
            storage.register_mem_pool_host(host)
        self.assertIn(f"the pool at {address} cannot be used (UNAVAILABLE", logged.output[0])
        keys = fixture.hashes(2)
        self.assert_all_miss(storage, host, keys)
        with Pool(dram="64MiB", arguments=["--master-listen", address]):
            self.assertEqual(storage.batch_set_v1(keys, pages(host, 2)), [False] * 2)  # pause
            now[0] += 61
            with self.assertLogs("moonpool.sglang", "INFO"):
                self.assertEqual(storage.batch_set_v1(keys, pages(host, 2)), [True] * 2)
            self.assertEqual(storage.batch_exists(keys), 2)


class Configured(unittest.TestCase):
    def create(self, **extra):
        config = fixture.config(extra=extra)
        return StorageBackendFactory.create_backend("dynamic", config, None)

    def test_sglang_makes_it_by_name(self):
        backend = self.create()
        self.assertIsInstance(backend, MoonpoolHiCacheStorage)
        self.assertIsInstance(backend, HiCacheStorage)

    def test_it_has_every_method_of_sglangs_interface(self):
        own = vars(MoonpoolHiCacheStorage)
        left_alone = {"on_host_pools_registered"}
        for name in vars(HiCacheStorage):
            if not name.startswith("_") and name not in left_alone:
                self.assertIn(name, own)

    def test_mistakes_are_named(self):
        for extra, message in (
            ({"masters": ""}, "names no masters"),
            ({"master": "a:1"}, "did you mean 'masters'"),
            ({"load_timeout": 9}, "load_timeout"),
            ({"replicas": "two"}, "replicas must be a whole number"),
            ({"pool_away_at_attach": "wait"}, "fail or miss"),
        ):
            with self.subTest(extra), self.assertRaisesRegex(ValueError, message):
                self.create(**extra)

    def test_heads_that_cannot_be_cut_are_refused(self):
        host = fixture.mha_pool("page_head", heads=1)
        config = fixture.config(tp_lcm_size=2, should_split_heads=True)
        with self.assertRaisesRegex(ValueError, "leave tp_lcm_size out"):
            MoonpoolHiCacheStorage(config).register_mem_pool_host(host)


if __name__ == "__main__":
    unittest.main()
