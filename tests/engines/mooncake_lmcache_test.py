#!/usr/bin/env python3
"""LMCache's own Mooncake connector, unmodified, on a real Moonpool: no GPU, no model.

    /path/to/lmcache/bin/python tests/engines/mooncake_lmcache_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). Ends with 77, and says so, where there
is no LMCache. Checked with LMCache 0.5.6, its chunks in host memory of its own back end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import unittest
import unittest.mock
from typing import Any

import mooncake_case as case
import mooncake_fixture as fixture
from mooncake._patience import Patience

try:
    import torch
    from lmcache.utils import CacheEngineKey
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.lookup_client.mooncake_lookup_client import MooncakeLookupClient
    from lmcache.v1.memory_management import MemoryFormat
    from lmcache.v1.metadata import LMCacheMetadata
    from lmcache.v1.storage_backend.connector.mooncakestore_connector import (
        MooncakestoreConnector,
    )
    from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
except ImportError as error:
    fixture.skip(f"no LMCache ({error}); run it with the Python of an LMCache installation")

CHUNK, SHAPE = 16, (2, 2, 16, 2, 8)  # tokens; layers, k and v, tokens, heads, head size
LARGE = (2, 2, 16, 32, 1024)  # 4 MiB


class Connects(unittest.TestCase):
    master: str

    def connect(self, loop: asyncio.AbstractEventLoop, shape: tuple[int, ...] = SHAPE,
                **extra: Any) -> MooncakestoreConnector:
        config = LMCacheEngineConfig.from_defaults(
            chunk_size=CHUNK, local_cpu=True, max_local_cpu_size=0.05, blocking_timeout_secs=20,
            extra_config={"mooncake_local_hostname": "localhost",
                          "mooncake_metadata_server": "P2PHANDSHAKE",
                          "mooncake_master_server_address": self.master,
                          "mooncake_namespace": self.id(), "mooncake_fingerprint": "test",
                          "mooncake_prefer_local_alloc": True, "transfer_timeout": 30} | extra)
        self.backend = LocalCPUBackend(config, self.metadata(shape), dst_device="cpu")
        return MooncakestoreConnector(loop, self.backend, config)

    def metadata(self, shape: tuple[int, ...] = SHAPE) -> LMCacheMetadata:
        return LMCacheMetadata(
            model_name="org/some-model", world_size=1, local_world_size=1, worker_id=0,
            local_worker_id=0, kv_dtype=torch.bfloat16, kv_shape=shape, chunk_size=CHUNK)

    def allocate(self, connector: MooncakestoreConnector) -> Any:
        return self.backend.allocate(connector.meta_shapes, connector.meta_dtypes,
                                     MemoryFormat.KV_2LTD)


def key_of(i: int) -> CacheEngineKey:
    return CacheEngineKey("org/some-model", 1, 0, i, torch.bfloat16)


class Connector(Connects):
    @classmethod
    def setUpClass(cls) -> None:
        pool = fixture.new_pool(nodes=1, dram="64MiB")
        cls.addClassCleanup(pool.close)
        cls.master = pool.master

    def check_round_trip(self, **extra: Any) -> None:
        async def go() -> None:
            connector = self.connect(asyncio.get_running_loop(), **extra)
            keys = [key_of(i) for i in range(3)]
            objects = [self.allocate(connector) for _ in keys]
            for memory in objects:
                memory.raw_tensor.view(torch.uint8).random_(0, 256)
            written = [bytes(memory.byte_array) for memory in objects]
            self.assertFalse(await connector.exists(keys[0]))
            await connector.batched_put(keys[:2], objects[:2])
            await connector.put(keys[2], objects[2])
            self.assertTrue(await connector.exists(keys[2]))
            self.assertEqual(await connector.batched_async_contains("lookup", keys), 3)
            read = await connector.batched_get(keys + [key_of(99)])
            self.assertIsNone(read[3])
            self.assertEqual([bytes(memory.byte_array) for memory in read[:3]], written)
            await connector.close()

        asyncio.run(go())

    def test_with_metadata_beside_the_chunks(self) -> None:
        self.check_round_trip()

    def test_without_copies(self) -> None:
        self.check_round_trip(save_chunk_meta=False)

    def test_a_chunk_that_is_not_full(self) -> None:
        """Half a chunk is read into the memory of a whole one: short reads are allowed to it."""
        async def go() -> None:
            connector = self.connect(asyncio.get_running_loop(), save_chunk_meta=False)
            whole = bytes(self.allocate(connector).byte_array)
            half = whole[:len(whole) // 2]
            self.assertEqual(connector.store.put(key_of(0).to_string(), half), 0)
            [read] = await connector.batched_get([key_of(0)])
            self.assertEqual(bytes(read.byte_array), half)
            await connector.close()

        asyncio.run(go())

    def test_what_leaves_no_time_is_no_setup(self) -> None:
        """LMCache looks at no number of setup's; an exception it takes for a pool that is away."""
        async def go() -> None:
            with self.assertLogs("mooncake.store", "ERROR") as logged:
                with self.assertRaises(RuntimeError):
                    self.connect(asyncio.get_running_loop(), transfer_timeout=0.01)
            self.assertIn("transfer_timeout: 1", logged.output[0])
            with self.assertLogs("mooncake.store", "ERROR"):
                with self.assertRaises(RuntimeError):
                    self.connect(asyncio.get_running_loop(),
                                 mooncake_master_server_address="127.0.0.1:1")

        asyncio.run(go())

    def test_its_lookup_client_understands_numbers(self) -> None:
        config = LMCacheEngineConfig.from_defaults(chunk_size=CHUNK)
        with self.assertLogs("mooncake.store", "ERROR"):
            client = MooncakeLookupClient(config, self.metadata(), "127.0.0.1:1")
        self.assertEqual(client.lookup(list(range(4 * CHUNK))), 0)
        client = MooncakeLookupClient(config, self.metadata(), self.master)
        self.assertEqual(client.lookup(list(range(4 * CHUNK))), 0)

    def test_its_waits_are_found(self) -> None:
        async def go() -> None:
            connector = self.connect(asyncio.get_running_loop(), transfer_timeout=2)
            self.assertEqual(connector.store._pool._patience, Patience(put=2, get=20))
            await connector.close()

        asyncio.run(go())


class GivesUp(Connects):
    """A put that LMCache has given up reads none of the bytes that are in its memory afterwards."""

    def setUp(self) -> None:
        master = fixture.new_master()
        self.addCleanup(master.stop)
        self.master = master.address
        node = fixture.new_node(self.master, "alpha", "64MiB")
        self.addCleanup(node.stop)
        self.node = node.process
        fixture.wait_for_node(self.master)

    def stop_node(self) -> None:
        self.node.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.node.pid, os.WSTOPPED | os.WNOWAIT)
        self.addCleanup(self.node.send_signal, signal.SIGCONT)

    def check_put_at_a_node_that_stands_still(self, is_batch: bool = False, **extra: Any) -> None:
        async def go() -> tuple[bytes, bytes]:
            connector = self.connect(asyncio.get_running_loop(), LARGE, transfer_timeout=0.5,
                                     **extra)
            memory = self.allocate(connector)
            memory.raw_tensor.view(torch.uint8).fill_(ord("A"))
            written = bytes(memory.byte_array)
            self.stop_node()
            if is_batch:
                await connector.batched_put([key_of(0)], [memory])
            else:
                await connector.put(key_of(0), memory)
            memory.raw_tensor.view(torch.uint8).fill_(ord("B"))  # it is another chunk's now
            self.node.send_signal(signal.SIGCONT)
            await asyncio.get_running_loop().shutdown_default_executor()
            value = connector.store.get(key_of(0).to_string())
            await connector.close()
            return value, written

        with self.assertLogs(MooncakestoreConnector.__module__, "WARNING") as logged:
            value, written = asyncio.run(go())
        self.assertIn("Timeout", logged.output[0], "the node stood still for long enough")
        self.assertNotIn(b"B" * 64, value)
        if value:  # not dropped: the machine was not too slow
            self.assertTrue(value.endswith(written), len(value))

    def test_put_from(self) -> None:
        self.check_put_at_a_node_that_stands_still(save_chunk_meta=False)

    def test_batch_put_from(self) -> None:
        self.check_put_at_a_node_that_stands_still(is_batch=True, save_chunk_meta=False)

    def test_put_parts(self) -> None:
        self.check_put_at_a_node_that_stands_still()

    def test_a_put_that_begins_late(self) -> None:
        """Its thread becomes free when most of LMCache's time has gone: it cannot know that it
        would be quick."""
        now = [0.0]

        class BusyExecutor(concurrent.futures.ThreadPoolExecutor):
            def submit(self, *args: Any) -> concurrent.futures.Future:
                now[0] += 29
                return super().submit(*args)

        async def go() -> None:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(BusyExecutor())
            connector = self.connect(loop, save_chunk_meta=False, transfer_timeout=30)
            with unittest.mock.patch("mooncake._patience.time") as time:
                time.monotonic.side_effect = lambda: now[0]
                with self.assertLogs("mooncake.store", "WARNING") as logged:
                    await connector.put(key_of(0), self.allocate(connector))
            self.assertIn("transfer_timeout", logged.output[0])
            self.assertEqual(connector.store.get(key_of(0).to_string()), b"")
            await connector.close()

        asyncio.run(go())


if __name__ == "__main__":
    case.run("mooncake_lmcache")
