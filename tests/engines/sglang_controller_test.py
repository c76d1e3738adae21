#!/usr/bin/env python3
"""moonpool.sglang under SGLang's own cache controllers: their threads store and fetch.

    .../sglang/bin/python tests/engines/sglang_controller_test.py [-v] [CLASS[.TEST] ...]

What the scheduler does around them (allocating host pages for a hit, draining the queues) is done
here, as unified_radix_cache.py does it; the device side is absent. Ends with 77 where there is no
SGLang.
"""

from __future__ import annotations

import threading
import unittest
from types import SimpleNamespace

import sglang_fixture as fixture

fixture.require_engine()

import torch  # noqa: E402
from sglang.srt.managers.cache_controller import HiCacheController  # noqa: E402
from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import (  # noqa: E402
    HybridCacheController,
    PrefetchOperation,
)
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool  # noqa: E402
from sglang.srt.mem_cache.pool_host import HostPoolGroup, PoolEntry  # noqa: E402
from sglang.srt.mem_cache.utils import get_storage_hash_str  # noqa: E402
from sglang.srt.runtime_context import get_parallel  # noqa: E402
from pool import Pool  # noqa: E402
from sglang_fixture import PAGE_TOKENS, pages  # noqa: E402

SECONDS = 30  # that a thread is given before the test gives up


class DeviceSide:
    """What the controllers ask of the device pool, without a device."""

    device = "cpu"
    layer_num = fixture.LAYERS

    def register_layer_transfer_counter(self, counter):
        pass


class MlaDeviceSide(DeviceSide, MLATokenToKVPool):
    def __init__(self):
        pass


def one_rank(test, **ranks):
    """Publishes a parallel layout for the test: one rank of one, but for `ranks`."""
    values = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_dcp_size": 1,
              "attn_dcp_rank": 0}
    test.enterContext(get_parallel().override(**(values | ranks)))


class Controllers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pool = cls.enterClassContext(Pool(dram="64MiB"))

    def extra_config(self, **extra):
        return fixture.config(self.pool.master, extra={"tag": self.id()} | extra).extra_config

    def controller(self, host, *, kind=HiCacheController, device=None, storage="dynamic", **extra):
        device = device or DeviceSide()
        controller = kind(
            SimpleNamespace(get_kvcache=lambda: device),
            host,
            PAGE_TOKENS,
            None,
            threading.Event(),
            storage_backend=storage,
            prefetch_threshold=PAGE_TOKENS,
            model_name="org/some-model",
            storage_backend_extra_config=self.extra_config(**extra),
            enable_storage_metrics=True,
        )
        self.addCleanup(controller.detach_storage_backend)
        return controller

    def back_up(self, controller, host, tokens, **pools):
        """Stores pages for `tokens`; returns their indices and the finished operation."""
        keys = get_storage_hash_str(tokens, None, page_size=PAGE_TOKENS)
        source = pages(host, len(keys))
        controller.write_storage(source, tokens, keys, prefix_keys=[], **pools)
        return source, controller.ack_backup_queue.get(timeout=SECONDS)

    def query(self, controller, tokens):
        controller.prefetch("request", tokens, None, prefix_keys=[])
        return controller.prefetch_hit_queue.get(timeout=SECONDS)

    def fetch(self, controller, host, operation):
        """Reads what the query found; the indices, once the operation is over."""
        operation.host_indices = pages(host, len(operation.hash_value))
        controller.prefetch_buffer.put(operation)
        while True:
            ack = controller.ack_prefetch_queue.get(timeout=SECONDS)
            if ack.completed_tokens is not None:
                operation.completed_tokens = ack.completed_tokens
            if ack.pool_hits is not None:
                operation.pool_storage_result.update_extra_pool_hit_pages(ack.pool_hits)
            if ack.completed_req:
                return operation.host_indices


class OnePool(Controllers):
    def setUp(self):
        one_rank(self)

    def assert_comes_back(self, host, device, count=300, **extra):
        """`count` pages: more than one batch of 128."""
        tokens = list(range(count * PAGE_TOKENS))
        writer = self.controller(host, device=device, **extra)
        source, stored = self.back_up(writer, host, tokens)
        self.assertEqual(stored.completed_tokens, len(tokens))
        expected = fixture.page_bytes(host, source)
        host.free(source)
        host.kv_buffer.zero_()
        # Another engine has the same prompt, and something behind it.
        reader = self.controller(host, device=device, **extra)
        operation = self.query(reader, tokens + [7] * PAGE_TOKENS)
        self.assertEqual(operation.storage_hit_count, len(tokens))
        target = self.fetch(reader, host, operation)
        self.assertEqual(operation.completed_tokens, len(tokens))
        self.assertEqual(fixture.page_bytes(host, target), expected)
        return writer, reader

    def test_pages_come_back_bit_for_bit(self):
        for layout in ("layer_first", "page_first", "page_first_direct", "page_head"):
            with self.subTest(layout):
                host = fixture.mha_pool(layout, tokens=2048)
                writer, reader = self.assert_comes_back(host, DeviceSide())
                self.assertEqual(writer.storage_backend.get_stats().backup_pgs, [128, 128, 44])
                self.assertEqual(reader.storage_backend.get_stats().prefetch_pgs, [128, 128, 44])

    def test_pages_of_mla_come_back_bit_for_bit(self):
        for layout in ("layer_first", "page_first", "page_first_direct"):
            with self.subTest(layout):
                self.assert_comes_back(fixture.mla_pool(layout, tokens=2048), MlaDeviceSide())

    def test_the_generic_interface_does_it_too(self):
        host = fixture.mha_pool("page_first", tokens=2048)
        writer, _ = self.assert_comes_back(host, DeviceSide(), interface_v1=0)
        self.assertEqual(writer.page_set_func, writer._generic_page_set)

    def test_a_rank_of_mla_that_is_not_the_first_stores_nothing(self):
        host = fixture.mla_pool("page_first")
        tokens = list(range(4 * PAGE_TOKENS))
        with get_parallel().override(tp_rank=1, tp_size=2):
            second = self.controller(host, device=MlaDeviceSide())
            self.back_up(second, host, tokens)
            self.assertEqual(self.query(second, tokens).storage_hit_count, 0)
        with get_parallel().override(tp_rank=0, tp_size=2):
            self.back_up(self.controller(host, device=MlaDeviceSide()), host, tokens)
        self.assertEqual(self.query(second, tokens).storage_hit_count, len(tokens))

    def test_detach_and_attach_while_it_runs(self):
        host = fixture.mha_pool("page_first")
        tokens = list(range(4 * PAGE_TOKENS))
        controller = self.controller(host)
        self.back_up(controller, host, tokens)
        first = controller.storage_backend
        controller.detach_storage_backend()
        self.assertIsNone(controller.storage_backend)
        self.assertEqual(first.batch_exists(fixture.hashes(1)), 0)
        controller.attach_storage_backend(
            "dynamic", model_name="org/some-model", storage_backend_extra_config=self.extra_config()
        )
        self.assertEqual(self.query(controller, tokens).storage_hit_count, len(tokens))

    def test_an_attach_that_fails_leaves_sglang_without_storage(self):
        host = fixture.mha_pool("page_first")
        controller = self.controller(host, storage=None)
        extra = self.extra_config(masters="127.0.0.1:1", attach_timeout=0.2)
        with self.assertRaises(ConnectionError):
            controller.attach_storage_backend("dynamic", storage_backend_extra_config=extra)
        self.assertFalse(controller.enable_storage)
        controller.attach_storage_backend(
            "dynamic", storage_backend_extra_config=self.extra_config()
        )
        self.assertTrue(controller.enable_storage)

    def test_a_page_that_is_gone_ends_the_fetch_before_it(self):
        host = fixture.mha_pool("page_first")
        tokens = list(range(8 * PAGE_TOKENS))
        controller = self.controller(host, hold=0)
        self.back_up(controller, host, tokens)
        operation = self.query(controller, tokens)
        backend = controller.storage_backend
        backend._io.remove(backend._shelves["kv"].names.keys(operation.hash_value[5:6]))
        self.fetch(controller, host, operation)
        self.assertEqual(operation.completed_tokens, 5 * PAGE_TOKENS)


class AnOutage(Controllers):
    def test_the_threads_outlive_the_pool(self):
        one_rank(self)
        host = fixture.mha_pool("page_first")
        tokens = list(range(4 * PAGE_TOKENS))
        # Over TCP: what is mapped can be read, and is right, also when its node is dead.
        extra = {"path": "tcp", "lookup_timeout": 0.3, "load_timeout": 0.3, "store_timeout": 0.3}
        with Pool(dram="64MiB") as pool:
            controller = self.controller(host, masters=pool.master, **extra)
            self.back_up(controller, host, tokens)
            operation = self.query(controller, tokens)
            self.assertEqual(operation.storage_hit_count, len(tokens))
            fixture.kill(pool, "master")
            fixture.kill(pool, "node-0")
            self.fetch(controller, host, operation)
            self.assertEqual(operation.completed_tokens, 0)
            _, stored = self.back_up(controller, host, [1] * 4 * PAGE_TOKENS)
            self.assertEqual(stored.completed_tokens, 0)
            self.assertEqual(self.query(controller, tokens).storage_hit_count, 0)
        threads = (controller.prefetch_thread, controller.prefetch_io_aux_thread,
                   controller.prefetch_sync_thread, controller.backup_thread)
        self.assertTrue(all(thread.is_alive() for thread in threads))
        controller.detach_storage_backend()
        self.assertFalse(any(thread.is_alive() for thread in threads))


class SeveralPools(Controllers):
    """A hybrid model: every page has KV, and the last two of a prefix a window of SWA."""

    def setUp(self):
        one_rank(self)
        self.kv, self.swa = fixture.mha_pool("page_first"), fixture.mha_pool("page_first", heads=1)
        self.group = HostPoolGroup([
            PoolEntry(PoolName.KV, self.kv, None, None, is_primary_index_anchor=True),
            PoolEntry(PoolName.SWA, self.swa, None, None),
        ])

    def window(self, keys):
        return PoolTransfer(
            PoolName.SWA, host_indices=pages(self.swa, 2), keys=list(keys[-2:]),
            hit_policy=PoolHitPolicy.TRAILING_PAGES,
        )

    def query(self, controller, tokens):
        keys = get_storage_hash_str(tokens, None, page_size=PAGE_TOKENS)
        operation = PrefetchOperation(
            CacheRequestHandle("request", 0), tokens, None, [], pool_transfers=[self.window(keys)]
        )
        controller.prefetch_queue.put(operation)
        return controller.prefetch_hit_queue.get(timeout=SECONDS)

    def test_both_pools_come_back(self):
        controller = self.controller(self.group, kind=HybridCacheController)
        tokens = list(range(6 * PAGE_TOKENS))
        keys = get_storage_hash_str(tokens, None, page_size=PAGE_TOKENS)
        stored_window = self.window(keys)
        source, stored = self.back_up(controller, self.kv, tokens, extra_pools=[stored_window])
        self.assertEqual(stored.completed_tokens, len(tokens))
        self.assertEqual(stored.pool_storage_result.extra_pool_hit_pages, {"swa": 2})
        operation = self.query(controller, tokens + [9] * 2 * PAGE_TOKENS)
        self.assertEqual(operation.storage_hit_count, len(tokens))
        self.assertEqual(operation.query_pool_hit_pages, {"kv": 6, "swa": 6})
        target = self.fetch(controller, self.kv, operation)
        self.assertEqual(operation.completed_tokens, len(tokens))
        self.assertEqual(
            fixture.page_bytes(self.kv, target), fixture.page_bytes(self.kv, source)
        )
        self.assertEqual(operation.pool_storage_result.extra_pool_hit_pages["swa"], 2)
        self.assertEqual(
            fixture.page_bytes(self.swa, operation.pool_transfers[0].host_indices),
            fixture.page_bytes(self.swa, stored_window.host_indices),
        )

    def test_without_its_window_a_prefix_is_no_hit(self):
        controller = self.controller(self.group, kind=HybridCacheController)
        tokens = list(range(6 * PAGE_TOKENS))
        self.back_up(controller, self.kv, tokens)
        self.assertEqual(self.query(controller, tokens).storage_hit_count, 0)


if __name__ == "__main__":
    unittest.main()
