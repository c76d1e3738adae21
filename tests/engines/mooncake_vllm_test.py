#!/usr/bin/env python3
"""vLLM's own Mooncake store connector, unmodified, on a real Moonpool: no GPU, no model.

    /path/to/vllm/bin/python tests/engines/mooncake_vllm_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). Ends with 77, and says so, where there
is no vLLM. Checked with vLLM 0.32.0: the worker of the KV connector with its sending, receiving and
lookup sides on CPU tensors, and the store of its embedding connector.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import types
import unittest
import unittest.mock
from typing import Any

import mooncake_case as case
import mooncake_fixture as fixture
import moonpool

try:
    import torch
    from vllm.distributed.ec_transfer.ec_connector.mooncake_store_embedding import store_client
    from vllm.distributed.kv_transfer.kv_connector.v1.mooncake.store import worker as kv_worker
    from vllm.distributed.kv_transfer.kv_connector.v1.mooncake.store.data import LoadSpec, ReqMeta
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
except ImportError as error:
    fixture.skip(f"no vLLM ({error}); run it with the Python of a vLLM installation")

BLOCK, BLOCKS, HEADS, HEAD_DIM, LAYERS = 16, 8, 2, 8, ("layer.0", "layer.1")


def vllm_config(extra: dict[str, Any] | None = None) -> Any:
    """As much of a VllmConfig as the worker reads: one rank of one."""
    return types.SimpleNamespace(
        model_config=types.SimpleNamespace(
            model="org/some-model", use_mla=False, enable_sleep_mode=False,
            enable_cumem_allocator=False, get_num_layers=lambda _: len(LAYERS),
            get_total_num_kv_heads=lambda: HEADS),
        parallel_config=types.SimpleNamespace(
            data_parallel_index=0, pipeline_parallel_size=1, rank=1,  # not 0: no lookup server
            decode_context_parallel_size=1, prefill_context_parallel_size=1),
        kv_transfer_config=types.SimpleNamespace(
            kv_role="kv_both", kv_connector_extra_config=extra or {}),
        cache_config=types.SimpleNamespace(
            block_size=BLOCK, num_gpu_blocks=BLOCKS, prefix_match_unit=None,
            enable_prefix_caching=True),
        kv_events_config=None, speculative_config=None)


def cache_config() -> KVCacheConfig:
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=HEADS, head_size=HEAD_DIM,
                             dtype=torch.bfloat16)
    return KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[],
                         kv_cache_groups=[KVCacheGroupSpec(list(LAYERS), spec)])


def caches() -> dict[str, torch.Tensor]:
    return {layer: torch.randn(BLOCKS, 2, BLOCK, HEADS, HEAD_DIM).to(torch.bfloat16)
            for layer in LAYERS}


def block_hashes(count: int) -> list[bytes]:
    return [hashlib.sha256(str(i).encode()).digest() for i in range(count)]


class OnAPool(unittest.TestCase):
    """One pool for a class, named by a file as vLLM's users do it; a tenant for each test."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = fixture.new_pool(nodes=1, dram="64MiB")
        cls.addClassCleanup(cls.pool.close)

    def setUp(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump({"metadata_server": "P2PHANDSHAKE", "protocol": "tcp", "device_name": "",
                       "master_server_address": self.pool.master, "mode": "embedded",
                       "global_segment_size": "1GB", "local_buffer_size": "1GB",
                       "tenant_id": self.id()}, file)
        self.addCleanup(os.unlink, file.name)
        patch = unittest.mock.patch.dict(os.environ, {"MOONCAKE_CONFIG_PATH": file.name,
                                                      "VLLM_MOONCAKE_STORE_TIER_LOG": "1"})
        patch.start()
        self.addCleanup(patch.stop)


class KvConnectorWorker(OnAPool):
    def new_worker(self, kv_caches: dict[str, torch.Tensor],
                   extra: dict[str, Any] | None = None) -> kv_worker.MooncakeStoreWorker:
        one_rank = types.SimpleNamespace(world_size=1, rank_in_group=0)
        with unittest.mock.patch.multiple(
                kv_worker, get_tensor_model_parallel_rank=lambda: 0,
                get_tensor_model_parallel_world_size=lambda: 1, get_pcp_group=lambda: one_rank,
                get_dcp_group=lambda: one_rank):
            worker = kv_worker.MooncakeStoreWorker(vllm_config(extra), cache_config())
        worker.register_kv_caches(kv_caches)
        self.addCleanup(worker.close)
        return worker

    def save(self, worker: kv_worker.MooncakeStoreWorker, count: int) -> None:
        worker.kv_send_thread.add_request(ReqMeta(
            req_id="save", token_len_chunk=count * BLOCK, block_ids=(list(range(1, 1 + count)),),
            block_hashes=block_hashes(count), can_save=True, store_job_id=1,
            num_prompt_tokens=count * BLOCK, completed_token_len=count * BLOCK))
        worker.kv_send_thread.request_queue.join()

    def load(self, worker: kv_worker.MooncakeStoreWorker, count: int) -> None:
        worker.recv_request_queue.put(ReqMeta(
            req_id="load", token_len_chunk=count * BLOCK, block_ids=(list(range(1, 1 + count)),),
            block_hashes=block_hashes(count),
            load_spec=LoadSpec(0, count * BLOCK, True, token_len=count * BLOCK)))
        worker.recv_request_queue.join()

    def check_round_trip(self, extra: dict[str, Any] | None = None) -> None:
        written, read = caches(), caches()
        writer, reader = self.new_worker(written, extra), self.new_worker(read, extra)
        hashes = block_hashes(4)
        self.assertEqual(reader.lookup(4 * BLOCK, hashes).hit_length, 0)
        self.save(writer, 3)
        # A block beyond the hit: the last token of a prompt is always computed.
        self.assertEqual(reader.lookup(4 * BLOCK, hashes).hit_length, 3 * BLOCK)
        self.load(reader, 3)
        self.assertEqual(reader.get_block_ids_with_load_errors(), set())
        for layer in LAYERS:
            self.assertTrue(torch.equal(read[layer][1:4], written[layer][1:4]))
            self.assertFalse(torch.equal(read[layer][4:], written[layer][4:]), "not asked for")
        stats = writer.get_kv_connector_stats()
        self.assertIn("save_put", str(stats.data))

    def test_what_one_saves_another_finds_and_loads(self) -> None:
        self.check_round_trip()

    def test_with_groups_and_a_preferred_segment(self) -> None:
        self.check_round_trip({"enable_group_semantics": "true", "preferred_segment": "node-0"})

    def test_blocks_that_are_gone_are_reported(self) -> None:
        worker = self.new_worker(caches())
        self.save(worker, 2)
        self.assertEqual(worker.store.remove_all(force=True), 2)
        self.load(worker, 2)
        self.assertEqual(worker.get_block_ids_with_load_errors(), {1, 2})

    def test_tiers_of_replicas(self) -> None:
        worker = self.new_worker(caches())
        self.save(worker, 1)
        with moonpool.Client(self.pool.master, namespace=self.id()) as client:
            [key] = client.list_keys().keys
        tiers = kv_worker._get_replica_tiers_by_key(worker.store, [key, "never"])
        self.assertEqual(tiers, {key: "memory", "never": "unknown"})


class EmbeddingConnector(OnAPool):
    def test_tensors_come_back(self) -> None:
        client = store_client.create_mooncake_embedding_store_client(1 << 20)
        self.addCleanup(client.close)
        tensor = torch.randn(5, 16).to(torch.bfloat16)
        self.assertFalse(client.exists("e"))
        client.put_tensor("e", tensor)
        self.assertTrue(client.exists("e"))
        spec = store_client.TensorSpec(tuple(tensor.shape), str(tensor.dtype), tensor.nbytes)
        loaded = client.load_tensors({"e": spec, "never": spec}, "cpu")
        self.assertEqual(set(loaded), {"e"})
        self.assertTrue(torch.equal(loaded["e"], tensor))


if __name__ == "__main__":
    case.run("mooncake_vllm")
