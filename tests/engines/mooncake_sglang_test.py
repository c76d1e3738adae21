#!/usr/bin/env python3
"""SGLang's own Mooncake back end, unmodified, on a real Moonpool: no GPU, no model.

    /path/to/sglang/bin/python tests/engines/mooncake_sglang_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). Ends with 77, and says so, where there
is no SGLang. Checked with SGLang 0.5.23.
"""

from __future__ import annotations

import hashlib
import os
import unittest
import unittest.mock
from typing import Any

import mooncake_case as case
import mooncake_fixture as fixture
import moonpool

try:
    import torch
    from sglang.srt.mem_cache.device_pool_info import (
        KVBufferLayout,
        KVBuffers,
        MHABufferInfo,
        MLABufferInfo,
    )
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
    from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
    from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost
    from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
    from sglang.srt.mem_cache.storage.mooncake_store import mooncake_store, test_mooncake_store
except ImportError as error:
    fixture.skip(f"no SGLang ({error}); run it with the Python of an SGLang installation")

PAGE, LAYERS, DEVICE_TOKENS = 4, 3, 64


def storage_config(**changes: Any) -> HiCacheStorageConfig:
    """Of rank 0 of 1."""
    values = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0,
              "attn_cp_size": 1, "is_mla_model": False, "enable_storage_metrics": True,
              "is_page_first_layout": True, "model_name": "org/some-model", "extra_config": None}
    return HiCacheStorageConfig(**(values | changes))


def _addresses(tensors: Any) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)


def _filled(pool: Any) -> Any:
    as_bytes = pool.kv_buffer.view(-1).view(torch.uint8)
    as_bytes.copy_(torch.randint(0, 256, as_bytes.shape, dtype=torch.uint8))
    return pool


def mha_pool(layout: str, allocator: str = "default") -> MHATokenToKVPoolHost:
    """SGLang's host pool with random contents; without a GPU its device side is CPU tensors."""
    k, v = (tuple(torch.zeros(DEVICE_TOKENS, 2, 8, dtype=torch.bfloat16) for _ in range(LAYERS))
            for _ in range(2))
    info = MHABufferInfo(
        buffers=KVBuffers(k=k, v=v, k_data_ptrs=_addresses(k), v_data_ptrs=_addresses(v),
                          layout=KVBufferLayout.NHD),
        page_size=PAGE, head_num=2, head_dim=8, v_head_dim=8, dtype=torch.bfloat16,
        device=torch.device("cpu"))
    return _filled(MHATokenToKVPoolHost(
        info, 2.0, 0, PAGE, layout, pin_memory=False, allocator_type=allocator,
        device_capacity_tokens=DEVICE_TOKENS, start_layer=0, end_layer=LAYERS))


def mla_pool(layout: str) -> MLATokenToKVPoolHost:
    """The same of a model with MLA."""
    rows = tuple(torch.zeros(DEVICE_TOKENS, 1, 24, dtype=torch.bfloat16) for _ in range(LAYERS))
    info = MLABufferInfo(
        buffers=rows, data_ptrs=_addresses(rows), layer_indices=tuple(range(LAYERS)),
        device_layer_num=LAYERS, page_size=PAGE, kv_lora_rank=16, qk_rope_head_dim=8,
        kv_cache_dim=24, dtype=torch.bfloat16, device=torch.device("cpu"))
    return _filled(MLATokenToKVPoolHost(
        info, 2.0, 0, PAGE, layout, pin_memory=False, device_capacity_tokens=DEVICE_TOKENS,
        start_layer=0, end_layer=LAYERS, target_layer_num=LAYERS))


def hashes(count: int) -> list[str]:
    """Page hashes as SGLang's look."""
    return [hashlib.sha256(str(i).encode()).hexdigest() for i in range(count)]


def page_bytes(pool: Any, indices: torch.Tensor) -> list[bytes]:
    """The bytes of each page, by SGLang's own reading of its layout."""
    return [pool.get_data_page(int(start), flat=True).view(torch.uint8).numpy().tobytes()
            for start in indices[::PAGE]]


class OnAPool(unittest.TestCase):
    """One pool for a class, named by the environment as SGLang's users do it."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.master = fixture.new_master()
        cls.addClassCleanup(cls.master.stop)
        node = fixture.new_node(cls.master.address, "alpha", "64MiB")
        cls.addClassCleanup(node.stop)
        fixture.wait_for_node(cls.master.address)

    def setUp(self) -> None:
        environment = {"MOONCAKE_MASTER": self.master.address, "MOONCAKE_TENANT_ID": self.id(),
                       "MOONCAKE_CHECK_SERVER": "1",
                       "MOONCAKE_MASTER_METRICS_PORT": self.master.http.rsplit(":", 1)[1]}
        patch = unittest.mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)


class ItsOwnTests(OnAPool):
    """What SGLang tests its back end with, where there is a Mooncake."""

    def test_single_operation(self) -> None:
        test_mooncake_store.test_single_operation()

    def test_batch_operation(self) -> None:
        for mla, rank, size in ((False, 0, 1), (True, 0, 1), (False, 1, 4), (True, 3, 8)):
            with self.subTest(mla=mla, rank=rank, size=size):
                test_mooncake_store.test_batch_operation(
                    test_mooncake_store.make_hicache_storage_config(
                        is_mla_model=mla, tp_rank=rank, tp_size=size))


class HostPools(OnAPool):
    """With its own host pools, as the cache controller calls it."""

    def attach(self, pool: Any, **changes: Any) -> mooncake_store.MooncakeStore:
        storage = mooncake_store.MooncakeStore(storage_config(**changes), pool)
        storage.register_mem_pool_host(pool)
        return storage

    def check_round_trip(self, pool: Any, **changes: Any) -> None:
        storage = self.attach(pool, **changes)
        keys = hashes(5)
        written = pool.alloc(5 * PAGE)
        expected = page_bytes(pool, written)
        self.assertEqual(storage.batch_exists(keys), 0)
        self.assertEqual(storage.batch_set_v1(keys, written), [True] * 5)
        self.assertEqual(storage.batch_set_v1(keys, written), [True] * 5, "all there already")
        self.assertEqual(storage.batch_exists(keys), 5)
        self.assertEqual(storage.batch_exists(keys[:2] + ["x" * 64] + keys[3:]), 2)
        read = pool.alloc(5 * PAGE)
        self.assertNotEqual(page_bytes(pool, read), expected)
        self.assertEqual(storage.batch_get_v1(keys, read), [True] * 5)
        self.assertEqual(page_bytes(pool, read), expected)
        self.assertEqual(storage.batch_get_v1(["y" * 64] + keys[:1], read[:2 * PAGE]),
                         [False, True])
        self.assertTrue(storage.get_stats().prefetch_pgs)
        storage.clear()
        self.assertEqual(storage.batch_exists(keys), 0)

    def test_mha_layouts(self) -> None:
        for layout in ("page_first", "page_first_direct"):
            with self.subTest(layout):
                self.check_round_trip(mha_pool(layout))

    def test_mla_layouts(self) -> None:
        """layer_first is one object of several pieces: the multi-buffer calls."""
        for layout in ("layer_first", "page_first", "page_first_direct"):
            with self.subTest(layout):
                self.check_round_trip(mla_pool(layout), is_mla_model=True)

    def test_half_a_page_is_none(self) -> None:
        """As a server with another --kv-cache-dtype would have stored it under the same keys."""
        pool = mha_pool("page_first")
        storage = self.attach(pool)
        indices = pool.alloc(PAGE)
        self.assertEqual(storage.batch_set_v1(hashes(1), indices), [True])
        with moonpool.Client(self.master.address, namespace=self.id()) as client:
            keys = client.list_keys().keys
        for key in keys:
            value = storage.store.get(key)
            self.assertEqual(storage.store.remove(key), 0)
            self.assertEqual(storage.store.put(key, value[:len(value) // 2]), 0)
        self.assertEqual(storage.batch_get_v1(hashes(1), indices), [False])

    def test_by_its_factory_with_settings_in_the_extra_config(self) -> None:
        extra = {"master_server_address": self.master.address, "tenant_id": self.id(),
                 "global_segment_size": "4gb", "extra_backend_tag": "tag",
                 "enable_group_semantics": True}
        pool = mha_pool("page_first")
        storage = StorageBackendFactory.create_backend(
            "mooncake", storage_config(extra_config=extra), pool)
        self.assertTrue(storage._can_use_group_semantics())
        storage.register_mem_pool_host(pool)
        indices = pool.alloc(PAGE)
        self.assertEqual(storage.batch_set_v1(hashes(1), indices), [True])
        self.assertEqual(storage.batch_exists(hashes(1)), 1)

    def test_standalone_storage_in_memory_of_our_allocator(self) -> None:
        pool = mha_pool("page_first", allocator="mooncake")
        self.assertIsInstance(pool.allocator, mooncake_store.MooncakeHostTensorAllocator)
        environment = {"MOONCAKE_STANDALONE_STORAGE": "1", "MOONCAKE_CLIENT": self.master.address}
        with unittest.mock.patch.dict(os.environ, environment):
            storage = self.attach(pool)
        storage.clear()
        indices = pool.alloc(2 * PAGE)
        expected = page_bytes(pool, indices)
        self.assertEqual(storage.batch_set_v1(hashes(2), indices), [True] * 2)
        pool.kv_buffer.zero_()
        self.assertEqual(storage.batch_get_v1(hashes(2), indices), [True] * 2)
        self.assertEqual(page_bytes(pool, indices), expected)

    def test_a_pool_that_is_gone_makes_misses(self) -> None:
        with fixture.new_master() as master:
            with fixture.new_node(master.address, "beta"):
                fixture.wait_for_node(master.address)
                with unittest.mock.patch.dict(os.environ, {
                        "MOONCAKE_MASTER": master.address, "MOONCAKE_CHECK_SERVER": "0"}):
                    pool = mha_pool("page_first")
                    storage = self.attach(pool)
                indices = pool.alloc(PAGE)
                self.assertEqual(storage.batch_set_v1(hashes(1), indices), [True])
            master.kill()
            self.assertEqual(storage.batch_exists(hashes(1)), 0)
            self.assertEqual(storage.batch_get_v1(hashes(1), indices), [False])
            self.assertEqual(storage.batch_set_v1(hashes(1), indices), [False])


if __name__ == "__main__":
    case.run("mooncake_sglang")
