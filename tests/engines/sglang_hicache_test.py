#!/usr/bin/env python3
"""moonpool.sglang with SGLang's own host pools and a real pool: what is stored, and who shares it.

    .../sglang/bin/python tests/engines/sglang_hicache_test.py [-v] [CLASS[.TEST] ...]

Ends with 77 where there is no SGLang. Beside it: sglang_outage_test.py (what must not happen),
sglang_controller_test.py (SGLang's storage threads).
"""

from __future__ import annotations

import unittest
import unittest.mock

import sglang_fixture as fixture

fixture.require_engine()

import moonpool  # noqa: E402
import torch  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)
from sglang_fixture import WithPool, pages  # noqa: E402

MHA_LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_head")
MLA_LAYOUTS = ("layer_first", "page_first", "page_first_direct")


class RoundTrip(WithPool):
    def assert_round_trip(self, writer, reader, host_pool, target_pool, count=10):
        keys = fixture.hashes(count)
        source = pages(host_pool, count)
        self.assertEqual(reader.batch_exists(keys), 0)
        self.assertEqual(writer.batch_set_v1(keys, source), [True] * count)
        self.assertEqual(reader.batch_exists(keys), count)
        target = pages(target_pool, count)
        # Not in the order of memory: each page goes where its index says.
        page = target_pool.page_size
        target = target.view(-1, page).flip(0).reshape(-1)
        self.assertEqual(reader.batch_get_v1(keys, target), [True] * count)
        self.assertEqual(
            fixture.page_bytes(target_pool, target), fixture.page_bytes(host_pool, source)
        )

    def test_every_mha_layout_comes_back_bit_for_bit(self):
        for layout in MHA_LAYOUTS:
            with self.subTest(layout):
                host, target = fixture.mha_pool(layout), fixture.mha_pool(layout)
                self.assert_round_trip(self.storage(host), self.storage(target), host, target)

    def test_every_mla_layout_comes_back_bit_for_bit(self):
        for layout in MLA_LAYOUTS:
            with self.subTest(layout):
                host, target = fixture.mla_pool(layout), fixture.mla_pool(layout)
                writer = self.storage(host, is_mla_model=True)
                reader = self.storage(target, is_mla_model=True)
                self.assert_round_trip(writer, reader, host, target)

    def test_other_element_types(self):
        fp8 = {"kv_cache_dtype": "fp8_e4m3"}
        for dtype, extra in ((torch.float16, {}), (torch.float32, {}), (torch.uint8, fp8)):
            with self.subTest(dtype):
                host, target = (fixture.mha_pool("page_first", dtype=dtype) for _ in range(2))
                writer, reader = (self.storage(pool, extra=extra) for pool in (host, target))
                self.assert_round_trip(writer, reader, host, target)

    def test_a_pool_without_addresses_is_copied(self):
        host, target = fixture.mha_pool("page_first"), fixture.mha_pool("page_first")
        for pool in (host, target):
            pool.get_page_buffer_meta = unittest.mock.Mock(side_effect=ValueError("no addresses"))
        self.assert_round_trip(self.storage(host), self.storage(target), host, target)

    def test_storing_again_is_true_and_changes_nothing(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        keys, source = fixture.hashes(4), pages(host, 4)
        before = fixture.page_bytes(host, source)
        storage.batch_set_v1(keys, source)
        self.assertEqual(storage.batch_set_v1(keys, pages(host, 4)), [True] * 4)
        self.assertEqual(storage.counts()["already_there"], 4)
        target = pages(host, 4)
        storage.batch_get_v1(keys, target)
        self.assertEqual(fixture.page_bytes(host, target), before)

    def test_a_hit_ends_at_the_first_miss(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        keys, source = fixture.hashes(8), pages(host, 8)
        page = host.page_size
        present = [i for i in range(8) if i != 5]
        storage.batch_set_v1(
            [keys[i] for i in present], source.view(-1, page)[present].reshape(-1)
        )
        self.assertEqual(storage.batch_exists(keys), 5)
        got = storage.batch_get_v1(keys, pages(host, 8))
        self.assertEqual(got[:6], [True] * 5 + [False])

    def test_a_large_batch_goes_in_pieces(self):
        host, target = fixture.mha_pool("page_first"), fixture.mha_pool("page_first")
        extra = {"chunk_bytes": 1000}  # a page has 768
        writer, reader = self.storage(host, extra=extra), self.storage(target, extra=extra)
        self.assert_round_trip(writer, reader, host, target)

    def test_the_pool_learns_the_chain(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        puts = []
        connection = storage._io._connection
        connection._client = unittest.mock.Mock(wraps=connection._client)
        connection._client.put_many.side_effect = lambda keys, values, **kw: puts.append(
            (keys, kw["parents"])
        ) or [True] * len(keys)
        keys = fixture.hashes(4)
        storage.batch_set_v1(keys[:2], pages(host, 2), HiCacheStorageExtraInfo())
        storage.batch_set_v1(keys[2:], pages(host, 2), HiCacheStorageExtraInfo(keys[:2]))
        self.assertEqual([p for _, parents in puts for p in parents],
                         ["", *[k for ks, _ in puts for k in ks][:3]])
        for key, page in zip([k for ks, _ in puts for k in ks], keys):
            self.assertRegex(key, rf"^tp0of1\.kv\.[0-9a-f]{{8}}/{page}$")


class WhoSharesWithWhom(WithPool):
    def test_ranks_of_mha_have_their_own_pages(self):
        hosts = [fixture.mha_pool("page_first") for _ in range(2)]
        ranks = [self.storage(hosts[i], tp_rank=i, tp_size=2) for i in range(2)]
        self.assertEqual(ranks[0].namespace, ranks[1].namespace)
        keys = fixture.hashes(3)
        ranks[0].batch_set_v1(keys, pages(hosts[0], 3))
        self.assertEqual([rank.batch_exists(keys) for rank in ranks], [3, 0])

    def test_ranks_of_mla_have_the_same_pages_and_one_writes(self):
        hosts = [fixture.mla_pool("page_first") for _ in range(2)]
        ranks = [self.storage(hosts[i], tp_rank=i, tp_size=2, is_mla_model=True) for i in range(2)]
        keys = fixture.hashes(3)
        self.assertEqual(ranks[1].batch_set_v1(keys, pages(hosts[1], 3)), [True] * 3)
        self.assertEqual(ranks[0].batch_exists(keys), 0)  # it did not
        source = pages(hosts[0], 3)
        ranks[0].batch_set_v1(keys, source)
        target = pages(hosts[1], 3)
        self.assertEqual(ranks[1].batch_get_v1(keys, target), [True] * 3)
        self.assertEqual(
            fixture.page_bytes(hosts[1], target), fixture.page_bytes(hosts[0], source)
        )

    def test_mla_is_shared_between_tp_sizes_and_mha_is_not(self):
        def namespace(pool, mla, tp_size):
            return self.storage(pool, is_mla_model=mla, tp_size=tp_size).namespace

        mla, mha = fixture.mla_pool("page_first"), fixture.mha_pool("page_first")
        self.assertEqual(namespace(mla, True, 1), namespace(mla, True, 4))
        self.assertNotEqual(namespace(mha, False, 1), namespace(mha, False, 4))

    def test_page_head_is_shared_between_tp_sizes_by_heads(self):
        whole = fixture.mha_pool("page_head", heads=4)
        split = dict(tp_lcm_size=2)
        writer = self.storage(whole, should_split_heads=True, **split)
        keys, source = fixture.hashes(3), pages(whole, 3)
        self.assertEqual(writer.batch_set_v1(keys, source), [True] * 3)
        self.assertEqual(writer.batch_exists(keys), 3)
        for rank in range(2):
            half = fixture.mha_pool("page_head", heads=2)
            reader = self.storage(half, tp_rank=rank, tp_size=2, **split)
            self.assertEqual(reader.namespace, writer.namespace)
            target = pages(half, 3)
            self.assertEqual(reader.batch_get_v1(keys, target), [True] * 3)
            of_rank = slice(2 * rank, 2 * rank + 2)
            for at, to in zip(source[::4] // 4, target[::4] // 4):
                ours = half.kv_buffer[:, to].view(torch.uint8)
                theirs = whole.kv_buffer[:, at, of_rank].contiguous().view(torch.uint8)
                self.assertTrue(torch.equal(ours, theirs))

    def test_whatever_changes_bytes_changes_the_namespace(self):
        base = fixture.mha_pool("page_first")
        self.storage(base)
        others = [
            self.storage(fixture.mha_pool("layer_first")),
            self.storage(fixture.mha_pool("page_first", dtype=torch.float16)),
            self.storage(fixture.mha_pool("page_first", page=8)),
            self.storage(base, extra={"model": "another-model"}),
            self.storage(base, pp_size=2),
            self.storage(base, attn_cp_size=2),
            self.storage(base, is_mla_model=True),
            self.storage(base, extra={"revision": "abc"}),
            self.storage(base, extra={"tag": "patched"}),
        ]
        namespaces = {storage.namespace for storage in [self.storage(base), *others]}
        self.assertEqual(len(namespaces), 1 + len(others))

    def test_the_shape_of_a_page_is_in_its_name(self):
        two, four = fixture.mha_pool("page_first", heads=2), fixture.mha_pool("page_first", heads=4)
        self.storage(two).batch_set_v1(fixture.hashes(1), pages(two, 1))
        self.assertEqual(self.storage(four).batch_exists(fixture.hashes(1)), 0)

    def test_a_named_namespace_refuses_another_layout(self):
        extra = {"namespace": "team-7"}
        self.storage(fixture.mha_pool("page_first"), extra=extra)
        other = self.storage(fixture.mha_pool("layer_first"), extra=extra, attach=False)
        with self.assertRaisesRegex(moonpool.FailedPrecondition, "page_first.*layer_first"):
            other.register_mem_pool_host(fixture.mha_pool("layer_first"))
        self.assertEqual(other.batch_exists(fixture.hashes(1)), 0)

    def test_pipeline_stages_and_context_parts_are_in_the_key(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(
            host, pp_rank=1, pp_size=2, attn_cp_rank=2, attn_cp_size=4, tp_rank=3, tp_size=8
        )
        names = storage._shelves["kv"].names
        self.assertRegex(names.keys(["ab"])[0], r"^tp3of8\.pp1of2\.cp2of4\.kv\.[0-9a-f]{8}/ab$")


class Generic(WithPool):
    def test_tensors_come_back(self):
        host = fixture.mha_pool("page_first")
        with self.assertLogs("moonpool.sglang", "WARNING") as logged:
            storage = self.storage(host, extra={"interface_v1": 0})
        self.assertIn('no "interface_v1": 1', logged.output[0])
        keys, source = fixture.hashes(4), pages(host, 4)
        values = [host.get_data_page(int(i)) for i in source[:: host.page_size]]
        self.assertTrue(storage.batch_set(keys, values))
        self.assertEqual(storage.batch_exists(keys), 4)
        targets = [host.get_dummy_flat_data_page() for _ in keys]
        got = storage.batch_get(keys, targets)
        for value, target, tensor in zip(values, targets, got):
            self.assertIs(tensor, target)
            self.assertTrue(torch.equal(value.view(torch.uint8), target.view(torch.uint8)))

    def test_one_page(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        key, value = fixture.hashes(1)[0], torch.randn(300).to(torch.bfloat16)
        target = torch.zeros_like(value)
        self.assertIsNone(storage.get(key, target))
        self.assertFalse(storage.exists(key))
        self.assertTrue(storage.set(key, value))
        self.assertTrue(storage.exists(key))
        self.assertIs(storage.get(key, target), target)
        self.assertTrue(torch.equal(value, target))

    def test_a_draft_does_not_take_the_place_of_its_page(self):
        host = fixture.mha_pool("page_first")
        storage = self.storage(host)
        key = fixture.hashes(1)[0]
        draft, target = torch.arange(64, dtype=torch.float32), torch.zeros(64)
        self.assertTrue(storage.batch_set([f"{key}.draft"], [draft]))
        self.assertTrue(storage.exists(f"{key}.draft"))
        self.assertEqual(storage.batch_exists([key]), 0)
        self.assertFalse(storage.exists(key))
        self.assertIs(storage.batch_get([f"{key}.draft"], [target])[0], target)
        self.assertTrue(torch.equal(draft, target))

    def test_both_interfaces_do_not_read_each_others_bytes(self):
        host = fixture.mha_pool("layer_first")  # where they order bytes differently
        storage = self.storage(host)
        key = fixture.hashes(1)[0]
        storage.batch_set_v1([key], pages(host, 1))
        self.assertIsNone(storage.get(key, host.get_dummy_flat_data_page()))
        self.assertTrue(storage.exists(key))


class Hybrid(WithPool):
    """Several pools: KV, and windows of SWA that are stored for the end of a prefix only."""

    def setUp(self):
        self.kv, self.swa = fixture.mha_pool("page_first"), fixture.mha_pool("page_first", heads=1)
        self.store = self.storage(self.kv)
        self.store.register_mem_host_pool_v2(self.kv, PoolName.KV)
        self.store.register_mem_host_pool_v2(self.swa, PoolName.SWA)
        self.store.on_host_pools_registered()

    def window(self, keys, policy=PoolHitPolicy.TRAILING_PAGES):
        return PoolTransfer(
            PoolName.SWA, host_indices=pages(self.swa, len(keys)), keys=keys, hit_policy=policy
        )

    def test_a_window_comes_back(self):
        keys = fixture.hashes(6)
        self.store.batch_set_v1(keys, pages(self.kv, 6))
        stored = self.window(keys[4:])
        self.assertEqual(self.store.batch_set_v2([stored]), {"swa": [True, True]})
        read = self.window(keys[4:])
        self.assertEqual(self.store.batch_get_v2([read]), {"swa": [True, True]})
        self.assertEqual(
            fixture.page_bytes(self.swa, read.host_indices),
            fixture.page_bytes(self.swa, stored.host_indices),
        )

    def test_a_prefix_ends_where_its_window_is_whole(self):
        keys = fixture.hashes(8)
        self.store.batch_set_v1(keys, pages(self.kv, 8))
        self.store.batch_set_v2([self.window(keys[1:3])])
        self.store.batch_set_v2([self.window(keys[3:6])])
        result = self.store.batch_exists_v2(keys, [self.window(["", ""])])
        self.assertEqual(result.kv_hit_pages, 6)
        self.assertEqual(result.extra_pool_hit_pages, {"kv": 8, "swa": 6})
        self.assertEqual(result.restorable_prefix_pages, [3, 4, 5, 6])

    def test_a_pool_of_all_pages_cuts_the_prefix(self):
        keys = fixture.hashes(8)
        self.store.batch_set_v1(keys, pages(self.kv, 8))
        self.store.batch_set_v2([self.window(keys[:5])])
        result = self.store.batch_exists_v2(keys, [self.window(keys, PoolHitPolicy.ALL_PAGES)])
        self.assertEqual(result.kv_hit_pages, 5)
        self.assertEqual(result.restorable_prefix_pages, [1, 2, 3, 4, 5])

    def test_without_any_window_there_is_no_hit(self):
        keys = fixture.hashes(4)
        self.store.batch_set_v1(keys, pages(self.kv, 4))
        result = self.store.batch_exists_v2(keys, [self.window(keys[-1:])])
        self.assertEqual((result.kv_hit_pages, result.restorable_prefix_pages), (0, []))
        self.assertEqual(result.extra_pool_hit_pages, {"kv": 4})

    def test_a_pool_that_nobody_registered_misses(self):
        keys = fixture.hashes(2)
        unknown = PoolTransfer(PoolName.INDEXER, host_indices=pages(self.kv, 2), keys=keys)
        known = self.window(keys)
        with self.assertLogs("moonpool.sglang", "ERROR"):
            self.assertEqual(
                self.store.batch_set_v2([unknown, known]),
                {"indexer": [False, False], "swa": [True, True]},
            )
        self.store.batch_set_v1(keys, pages(self.kv, 2))
        self.assertEqual(self.store.batch_exists_v2(keys, [unknown]).kv_hit_pages, 0)

    def test_mamba_states_come_back_and_are_each_ranks_own(self):
        for side_states in (False, True):
            with self.subTest(side_states=side_states):
                keys, stores = fixture.hashes(3, f"{side_states}"), []
                for rank in range(2):
                    kv, mamba = fixture.mla_pool("page_first"), fixture.mamba_pool(
                        side_states=side_states
                    )
                    store = self.storage(kv, is_mla_model=True, tp_rank=rank, tp_size=2)
                    store.register_mem_host_pool_v2(mamba, PoolName.MAMBA)
                    stores.append((store, mamba))
                for store, mamba in stores:
                    self.assert_states_come_back(store, mamba, keys)

    def assert_states_come_back(self, store, mamba, keys):
        stored, read = (
            PoolTransfer(PoolName.MAMBA, host_indices=pages(mamba, 3), keys=keys) for _ in range(2)
        )
        self.assertEqual(store.batch_get_v2([read]), {"mamba": [False] * 3})
        self.assertEqual(store.batch_set_v2([stored]), {"mamba": [True] * 3})
        self.assertEqual(store.batch_get_v2([read]), {"mamba": [True] * 3})
        self.assertEqual(
            fixture.page_bytes(mamba, read.host_indices),
            fixture.page_bytes(mamba, stored.host_indices),
        )

    def test_a_logical_anchor_has_no_bytes(self):
        from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool

        anchor = LogicalHostPool(64, fixture.PAGE_TOKENS)
        fp8 = {"kv_cache_dtype": "fp8_e4m3"}
        store = self.storage(anchor, is_mla_model=True, extra=fp8)
        store.register_mem_host_pool_v2(anchor, PoolName.KV)
        side = fixture.mla_pool("page_first")
        store.register_mem_host_pool_v2(side, PoolName.DEEPSEEK_V4_C4)
        keys = fixture.hashes(3)
        self.assertEqual(store.batch_set_v1(keys, pages(anchor, 3)), [True] * 3)
        self.assertEqual(store.batch_get_v1(keys, pages(anchor, 3)), [True] * 3)
        transfer = PoolTransfer(PoolName.DEEPSEEK_V4_C4, host_indices=pages(side, 2), keys=keys[:2])
        self.assertEqual(store.batch_set_v2([transfer]), {"deepseek_v4_c4": [True] * 2})
        self.assertEqual(store.batch_exists_v2(keys, [transfer]).kv_hit_pages, 2)

    def test_an_mha_draft_of_an_mla_model_is_never_another_ranks(self):
        keys, stores = fixture.hashes(2), []
        for rank in range(2):
            kv, draft = fixture.mla_pool("page_first"), fixture.mha_pool("page_first")
            store = self.storage(kv, is_mla_model=True, tp_rank=rank, tp_size=2)
            store.register_mem_host_pool_v2(draft, PoolName.DRAFT)
            transfer = PoolTransfer(PoolName.DRAFT, host_indices=pages(draft, 2), keys=keys)
            stores.append((store, transfer))
        self.assertEqual(stores[0][0].batch_set_v2([stores[0][1]]), {"draft": [True] * 2})
        self.assertEqual(stores[0][0].batch_get_v2([stores[0][1]]), {"draft": [True] * 2})
        self.assertEqual(stores[1][0].batch_get_v2([stores[1][1]]), {"draft": [False] * 2})


if __name__ == "__main__":
    unittest.main()
