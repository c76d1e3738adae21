#!/usr/bin/env python3
"""LMCache's own Mooncake connector, unmodified, on a real Moonpool: no GPU, no model.

    /path/to/lmcache/bin/python tests/engines/mooncake_lmcache_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). Ends with 77, and says so, where there
is no LMCache. Checked with LMCache 0.5.6, its chunks in host memory of its own back end.
"""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

import mooncake_case as case
import mooncake_fixture as fixture

try:
    import torch
    from lmcache.utils import CacheEngineKey
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.memory_management import MemoryFormat
    from lmcache.v1.metadata import LMCacheMetadata
    from lmcache.v1.storage_backend.connector.mooncakestore_connector import (
        MooncakestoreConnector,
    )
    from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
except ImportError as error:
    fixture.skip(f"no LMCache ({error}); run it with the Python of an LMCache installation")

CHUNK, SHAPE = 16, (2, 2, 16, 2, 8)  # tokens; layers, k and v, tokens, heads, head size


class Connector(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = fixture.new_pool(nodes=1, dram="64MiB")
        cls.addClassCleanup(cls.pool.close)

    def connect(self, loop: asyncio.AbstractEventLoop, **extra: Any) -> MooncakestoreConnector:
        config = LMCacheEngineConfig.from_defaults(
            chunk_size=CHUNK, local_cpu=True, max_local_cpu_size=0.05,
            extra_config={"mooncake_local_hostname": "localhost",
                          "mooncake_metadata_server": "P2PHANDSHAKE",
                          "mooncake_master_server_address": self.pool.master,
                          "mooncake_namespace": self.id(), "mooncake_fingerprint": "test",
                          "mooncake_prefer_local_alloc": True, "transfer_timeout": 30} | extra)
        metadata = LMCacheMetadata(
            model_name="org/some-model", world_size=1, local_world_size=1, worker_id=0,
            local_worker_id=0, kv_dtype=torch.bfloat16, kv_shape=SHAPE, chunk_size=CHUNK)
        self.backend = LocalCPUBackend(config, metadata, dst_device="cpu")
        return MooncakestoreConnector(loop, self.backend, config)

    def check_round_trip(self, **extra: Any) -> None:
        async def go() -> None:
            connector = self.connect(asyncio.get_running_loop(), **extra)
            keys = [CacheEngineKey("org/some-model", 1, 0, i, torch.bfloat16) for i in range(3)]
            objects = [self.backend.allocate(connector.meta_shapes, connector.meta_dtypes,
                                             MemoryFormat.KV_2LTD) for _ in keys]
            for memory in objects:
                memory.raw_tensor.view(torch.uint8).random_(0, 256)
            written = [bytes(memory.byte_array) for memory in objects]
            self.assertFalse(await connector.exists(keys[0]))
            await connector.batched_put(keys[:2], objects[:2])
            await connector.put(keys[2], objects[2])
            self.assertTrue(await connector.exists(keys[2]))
            self.assertEqual(await connector.batched_async_contains("lookup", keys), 3)
            never = CacheEngineKey("org/some-model", 1, 0, 99, torch.bfloat16)
            read = await connector.batched_get(keys + [never])
            self.assertIsNone(read[3])
            self.assertEqual([bytes(memory.byte_array) for memory in read[:3]], written)
            await connector.close()

        asyncio.run(go())

    def test_with_metadata_beside_the_chunks(self) -> None:
        self.check_round_trip()

    def test_without_copies(self) -> None:
        self.check_round_trip(save_chunk_meta=False)


if __name__ == "__main__":
    case.run("mooncake_lmcache")
