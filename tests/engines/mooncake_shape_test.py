#!/usr/bin/env python3
"""mooncake.store on Moonpool: what the calls on objects return, against a real pool.

    python3 tests/engines/mooncake_shape_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). Needs nothing but the standard library;
engines' own back ends run on it in mooncake_{sglang,vllm,lmcache}_test.py.
"""

from __future__ import annotations

import ctypes
import threading
import unittest.mock

import mooncake_case as case
import mooncake_fixture as fixture
import moonpool
from mooncake.store import MooncakeDistributedStore, MooncakeHostMemAllocator, ReplicateConfig
from mooncake_case import Region, WithStore


class Puts(WithStore):
    def test_put_and_put_parts(self) -> None:
        self.assertEqual(self.store.put("a", b"hello"), 0)
        self.assertEqual(self.store.put("a", b"other"), 0)
        self.assertEqual(self.store.get("a"), b"hello")
        self.assertEqual(self.store.put_parts("p", b"x", memoryview(b"yz"), bytearray(b"!")), 0)
        self.assertEqual(self.store.get("p"), b"xyz!")
        self.assertEqual(self.store.put_parts("q", b"1", config=ReplicateConfig()), 0)

    def test_put_batch_says_the_first_failure(self) -> None:
        self.assertEqual(self.store.put_batch(["a", "b"], [b"1", b"2"]), 0)
        self.assertEqual(self.store.put_batch(["c", "d"], [b"1"]), -600)
        self.assertEqual(self.store.put_batch(["e", "", "x" * 2000], [b"1", b"2", b"3"]), -600)
        self.assertEqual(self.store.get("e"), b"1")
        self.assertEqual(self.store.put_batch([], []), 0)

    def test_nothing_of_size_zero_is_dropped(self) -> None:
        region = Region(8)
        self.assertEqual(self.store.put("a", b""), 0)
        self.assertEqual(self.store.put_parts("b"), 0)
        self.assertEqual(self.store.put_from("c", region.ptr, 0), 0)
        self.assertEqual(self.store.batch_put_from(["d", "e"], [0, region.ptr], [0, 8]), [0, 0])
        self.assertEqual(self.store.batch_is_exist(list("abcde")), [1] * 5)
        self.assertEqual(self.store.get_size("c"), 0)
        self.assertEqual(self.store.get_into("d", region.ptr, 0), 0)

    def test_put_from_memory(self) -> None:
        region = Region(b"0123456789")
        self.assertEqual(self.store.put_from("f", region.ptr, 4), 0)
        self.assertEqual(self.store.batch_put_from(["g", "h"], [region.ptr, region.ptr + 5], [2, 3],
                                                   ReplicateConfig()), [0, 0])
        self.assertEqual(self.store.get_batch(["f", "g", "h"]), [b"0123", b"01", b"567"])
        self.assertEqual(self.store.batch_put_from_multi_buffers(
            ["m", "n"], [[region.ptr + 8, region.ptr], [region.ptr]], [[2, 2], [1]]), [0, 0])
        self.assertEqual(self.store.get_batch(["m", "n"]), [b"8901", b"0"])

    def test_what_cannot_be_memory_fails_alone(self) -> None:
        region = Region(b"0123456789")
        ptr = region.ptr
        impossible = [(ptr, 1 << 63), (ptr, 1 << 64), (ptr, 1 << 70), (1 << 64, 4), (1 << 70, 0),
                      ((1 << 64) - 1, 4), (-1, 4), (ptr, -1), (0, 4), (ptr, 1 << 62)]
        for number, (address, size) in enumerate(impossible):
            with self.subTest(address=address, size=size):
                keys, ptrs, sizes = [f"i{number}", f"g{number}"], [address, ptr], [size, 4]
                into = Region(4)
                self.assertEqual(self.store.batch_put_from(keys, ptrs, sizes), [-600, 0])
                self.assertEqual(self.store.batch_put_from_multi_buffers(
                    [key + "m" for key in keys], [[ptr, address], [ptr]], [[1, size], [4]]),
                    [-600, 0])
                self.assertEqual(self.store.register_buffer(address, size), -600)
                if size == 1 << 62:
                    continue  # more room than the object has
                found = self.store.batch_get_into([keys[1]] * 2, [address, into.ptr], sizes)
                self.assertEqual(found, [-600, 4])
                self.assertEqual(into.read(0, 4), b"0123")
                self.assertEqual(self.store.batch_get_into_multi_buffers(
                    [keys[1]] * 2, [[address], [into.ptr]], [[size], [4]]), [-600, 4])
        self.assertEqual(self.store.batch_put_from_multi_buffers(
            ["sum", "other"], [[ptr] * 2, [ptr]], [[1 << 62] * 2, [4]]), [-600, 0])

    def test_arguments_that_do_not_fit_together(self) -> None:
        region = Region(b"0123456789")
        ptr = region.ptr
        self.assertEqual(self.store.batch_put_from(["a", "b"], [ptr], [1, 1]), [-600, -600])
        self.assertEqual(self.store.batch_put_from(["a", "b"], [0, ptr], [1, 1]), [-600, 0])
        self.assertEqual(self.store.batch_put_from([], [], []), [])
        self.assertEqual(self.store.batch_put_from_multi_buffers(["c"], [[ptr, ptr]], [[1]]),
                         [-600])
        self.assertEqual(self.store.batch_put_from_multi_buffers(["c", "d"], [[ptr]], [[1]]),
                         [-600, -600])
        self.assertEqual(self.store.put("", b"v"), -600)
        self.assertEqual(self.store.put("k" * 1025, b"v"), -400)
        for wrong in ("text", None, 7):
            with self.assertRaises(TypeError):
                self.store.put("k", wrong)

    def test_a_key_twice_in_a_batch_is_the_first(self) -> None:
        region = Region(b"0123456789")
        self.assertEqual(self.store.batch_put_from(["d", "d"], [region.ptr, region.ptr], [3, 7]),
                         [0, 0])
        self.assertEqual(self.store.get_size("d"), 3)

    def test_a_full_pool_is_no_available_handle(self) -> None:
        with (fixture.new_master("--lease-max", "5m") as master,
              fixture.new_node(master.address, "small", "16MiB"),
              moonpool.Client(master.address) as client):
            fixture.wait_for_node(master.address)
            store = self.new_store(master_server_addr=master.address, tenant_id="default")
            self.assertEqual(store.put("held", bytes(2 << 20)), 0)
            self.assertGreater(client.match_prefix(["held"], hold=300).held, 0)
            with self.assertLogs("mooncake.store", "WARNING"):
                self.assertEqual(store.put("k", bytes(15 << 20)), -200)
                self.assertEqual(store.put("k", bytes(32 << 20)), -600, "larger than the pool")

    def test_a_pool_without_nodes_is_no_available_handle(self) -> None:
        with fixture.new_master() as master:
            store = self.new_store(master_server_addr=master.address, timeout=1)
            with self.assertLogs("mooncake.store", "WARNING"):
                self.assertEqual(store.put("k", b"v"), -200)

    def test_nothing_is_stored_before_its_writer_is_done(self) -> None:
        """The original says 0 to the second writer of a key at once."""
        outcomes: list[int] = []
        stores = [self.new_store() for _ in range(4)]
        begin = threading.Barrier(len(stores))

        def write(store: MooncakeDistributedStore) -> None:
            begin.wait()
            for i in range(20):
                code = store.put(f"k{i}", bytes(256 << 10))
                outcomes.append(code if code != 0 else store.is_exist(f"k{i}") - 1)

        threads = [threading.Thread(target=write, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(outcomes), {0})

    def test_replicas(self) -> None:
        config = ReplicateConfig()
        config.replica_num = 2
        self.assertEqual(self.store.put("two", b"v", config), 0)
        self.assertEqual(len(self.store.get_replica_desc("two")), 2)
        config.replica_num = 3
        self.assertEqual(self.store.put("three", b"v", config), 0, "as many as there are nodes")
        config.replica_num = 0
        self.assertEqual(self.store.put("none", b"v", config), -600)

    def test_the_fields_of_a_config(self) -> None:
        region = Region(b"0123456789")
        config = ReplicateConfig()
        config.group_ids = ["g"]
        ptrs = [region.ptr, region.ptr]
        self.assertEqual(self.store.batch_put_from(["a", "b"], ptrs, [1, 2], config), [-600, -600])
        config.group_ids = ["g", "g"]
        self.assertEqual(self.store.batch_put_from(["a", "b"], ptrs, [1, 2], config), [0, 0])
        config = ReplicateConfig()
        config.prefer_alloc_in_same_node = True
        self.assertEqual(self.store.put("c", b"v", config), -600)
        self.assertEqual(self.store.batch_put_from_multi_buffers(["c"], [[region.ptr]], [[1]],
                                                                 config), [0])
        for field in ("nof_replica_num", "dfs_replica_num", "soft_pin_action", "soft_pin_ttl_ms",
                      "with_soft_pin", "with_hard_pin", "preferred_segments", "preferred_segment",
                      "preferred_nof_segments", "data_type"):
            self.assertTrue(hasattr(ReplicateConfig, field), field)
        with self.assertRaises(AttributeError):
            config.replica_number = 2
        config = ReplicateConfig()
        config.with_hard_pin = True
        with unittest.mock.patch("mooncake.store._said", set()):
            with self.assertLogs("mooncake.store", "WARNING") as logged:
                self.store.put("d", b"v", config)
                self.store.put("e", b"v", config)
        self.assertEqual(len(logged.output), 1)


class Gets(WithStore):
    def setUp(self) -> None:
        super().setUp()
        self.store.put_batch(["a", "b"], [b"hello", b"world!"])

    def test_bytes(self) -> None:
        self.assertEqual(self.store.get("a"), b"hello")
        self.assertEqual(self.store.get("never"), b"")
        self.assertEqual(self.store.get_batch(["b", "never", "a"]), [b"world!", b"", b"hello"])

    def test_buffers(self) -> None:
        handle = self.store.get_buffer("a")
        self.assertEqual((handle.size(), len(handle), bytes(handle)), (5, 5, b"hello"))
        self.assertEqual(ctypes.string_at(handle.ptr(), 5), b"hello")
        self.assertFalse(memoryview(handle).readonly)
        self.assertIsNone(self.store.get_buffer("never"))
        handles = self.store.batch_get_buffer(["never", "b", "a"])
        self.assertEqual([handle and bytes(handle) for handle in handles],
                         [None, b"world!", b"hello"])
        self.store.put("empty", b"")
        self.assertEqual(self.store.get_buffer("empty").size(), 0)

    def test_into_memory(self) -> None:
        region = Region(32)
        ptr = region.ptr
        self.assertEqual(self.store.get_into("a", ptr, 5), 5)
        self.assertEqual(region.read(0, 5), b"hello")
        self.assertEqual(self.store.get_into("a", ptr, 4), -600)
        self.assertEqual(self.store.get_into("never", ptr, 32), -704)
        self.assertEqual(self.store.get_into("a", 0, 32), -600)
        self.assertEqual(self.store.batch_get_into(["b", "never", "a"], [ptr, ptr + 8, ptr + 16],
                                                   [6, 8, 3]), [6, -704, -600])
        self.assertEqual(self.store.batch_get_into(["a", "b"], [ptr], [5, 6]), [-600, -600])
        self.assertEqual(self.store.batch_get_into([], [], []), [])

    def test_an_object_that_is_too_short_is_another_one(self) -> None:
        """SGLang takes every positive number for a whole page."""
        region = Region(32)
        ptr = region.ptr
        with self.assertLogs("mooncake.store", "WARNING") as logged:
            self.assertEqual(self.store.batch_get_into(["a", "b"], [ptr, ptr + 8], [8, 6]),
                             [-800, 6])
            self.assertEqual(self.store.get_into("a", ptr, 8), -800)
        self.assertIn("5 bytes was read into 8", logged.output[0])
        self.store.put("empty", b"")
        self.assertEqual(self.store.get_into("empty", ptr, 1), -800)

    def test_unless_its_reader_looks_at_the_number(self) -> None:
        region = Region(32)
        ptr = region.ptr
        store = self.new_store(short_reads=1)
        self.assertEqual(store.batch_get_into(["a", "b"], [ptr, ptr + 8], [8, 6]), [5, 6])
        self.assertEqual(store.batch_get_into_multi_buffers(["a"], [[ptr, ptr + 8]], [[2, 8]]),
                         [-800], "nobody could tell which pieces were filled")

    def test_a_key_twice_fills_both_buffers(self) -> None:
        """The original leaves one of them as it was."""
        region = Region(16)
        self.assertEqual(self.store.batch_get_into(["a", "a"], [region.ptr, region.ptr + 8],
                                                   [5, 5]), [5, 5])
        self.assertEqual((region.read(0, 5), region.read(8, 13)), (b"hello", b"hello"))

    def test_into_several_pieces(self) -> None:
        region = Region(32)
        ptr = region.ptr
        get = self.store.batch_get_into_multi_buffers
        self.assertEqual(get(["a", "never", "b"], [[ptr + 10, ptr], [ptr], [ptr + 20]],
                             [[2, 3], [5], [6]]), [5, -704, 6])
        self.assertEqual((region.read(10, 12), region.read(0, 3), region.read(20, 26)),
                         (b"he", b"llo", b"world!"))
        self.assertEqual(get(["a"], [[ptr, ptr + 8]], [[2, 2]]), [-600])
        self.assertEqual(get(["a"], [[ptr, ptr + 8]], [[2, 8]]), [-800], "another object")
        self.assertEqual(get(["a"], [[ptr]], [[2, 3]]), [-600])
        self.assertEqual(get(["a", "b"], [[ptr]], [[5]]), [-600, -600])
        self.assertEqual(get(["a"], [[ptr]], [[5]], True), [5])

    def test_more_keys_than_a_call_takes(self) -> None:
        keys = [f"never{i}" for i in range(20000)] + ["a"]
        self.assertEqual(self.store.batch_is_exist(keys), [0] * 20000 + [1])


class Queries(WithStore):
    def setUp(self) -> None:
        super().setUp()
        self.store.put_batch(["a1", "a2", "b1", "b2"], [b"1", b"22", b"333", b""])

    def test_existence_and_size(self) -> None:
        self.assertEqual((self.store.is_exist("a1"), self.store.is_exist("never")), (1, 0))
        self.assertEqual(self.store.batch_is_exist(["a1", "never", "", "x" * 2000]), [1, 0, 0, 0])
        self.assertEqual(self.store.batch_is_exist([]), [])
        self.assertEqual((self.store.get_size("b1"), self.store.get_size("never")), (3, -704))

    def test_replica_descriptors(self) -> None:
        [replica] = self.store.get_replica_desc("b1")
        self.assertEqual(replica.status.name, "COMPLETE")
        self.assertTrue(replica.is_memory_replica())
        self.assertFalse(replica.is_disk_replica() or replica.is_local_disk_replica())
        buffer = replica.get_memory_descriptor().buffer_descriptor
        self.assertEqual(buffer.size, 3)
        self.assertTrue(buffer.transport_endpoint.startswith("node"), buffer)
        with self.assertRaises(RuntimeError):
            replica.get_disk_descriptor()
        self.assertEqual(self.store.get_replica_desc("never"), [])
        self.assertEqual(set(self.store.batch_get_replica_desc(["a1", "never"])), {"a1"})

    def test_remove(self) -> None:
        self.assertEqual(self.store.remove("a1"), 0)
        self.assertEqual(self.store.remove("a1", force=True), -704)
        self.assertEqual(self.store.batch_remove(["a2", "never"], True), [0, -704])
        self.assertEqual(self.store.batch_remove([]), [])
        self.assertEqual(self.store.batch_is_exist(["a1", "a2", "b1"]), [0, 0, 1])

    def test_remove_by_regex(self) -> None:
        self.assertEqual(self.store.remove_by_regex("^a"), 2)
        self.assertEqual(self.store.remove_by_regex("1$", True), 1)
        self.assertEqual(self.store.remove_by_regex("nothing"), 0)
        with self.assertLogs("mooncake.store", "ERROR"):
            self.assertEqual(self.store.remove_by_regex("("), -600)
        self.assertEqual(self.store.batch_is_exist(["a1", "a2", "b1", "b2"]), [0, 0, 0, 1])

    def test_remove_all_is_all_of_the_namespace(self) -> None:
        other = self.new_store(tenant_id="not-touched")
        other.put("k", b"v")
        self.assertEqual(self.store.remove_all(), 4)
        self.assertEqual(self.store.remove_all(force=True), 0)
        self.assertEqual(other.get("k"), b"v")

    def test_remove_all_of_more_than_a_page(self) -> None:
        keys = [f"k{i}" for i in range(12000)]
        self.assertEqual(self.store.put_batch(keys, [b"v"] * len(keys)), 0)
        self.assertEqual(self.store.remove_all(), len(keys) + 4)


class Memory(WithStore):
    def test_registration(self) -> None:
        region, ptr = Region(8192), 0
        ptr = region.ptr
        self.assertEqual(self.store.register_buffer(ptr, 4096), 0)
        for again, size in ((ptr, 4096), (ptr + 1024, 16), (ptr - 1, 2)):
            self.assertEqual(self.store.register_buffer(again, size), -600)
        self.assertEqual(self.store.register_buffer(ptr + 4096, 4096), 0)
        for nothing, size in ((0, 4096), (ptr, 0)):
            self.assertEqual(self.store.register_buffer(nothing, size), -600)
        self.assertEqual(self.store.unregister_buffer(ptr), 0)
        self.assertEqual(self.store.unregister_buffer(ptr), -600)
        self.assertEqual(self.store.register_buffer(ptr, 4096), 0)

    def test_what_is_no_host_memory_is_refused(self) -> None:
        """As a GPU's memory would be: addresses without pages behind them."""
        with self.assertLogs("mooncake.store", "ERROR"):
            self.assertEqual(self.store.register_buffer(4096, 64), -600)

    def test_the_allocators_memory(self) -> None:
        allocator = MooncakeHostMemAllocator()
        ptr = allocator.alloc(10000)
        self.assertEqual(ptr % 4096, 0)
        ctypes.memset(ptr, 7, 10000)
        self.assertEqual(self.store.register_buffer(ptr, 10000), 0)
        self.assertEqual(self.store.put_from("k", ptr, 10000), 0)
        del allocator
        self.assertEqual(self.store.get("k"), bytes([7]) * 10000)
        other = MooncakeHostMemAllocator()
        self.assertEqual((other.free(ptr), other.free(ptr), other.free(0)), (0, -1, -1))
        with self.assertRaises(RuntimeError):
            other.alloc(0)
        with self.assertLogs("mooncake.store", "ERROR"):
            self.assertEqual([other.alloc(1 << 60), other.alloc(1 << 64)], [0, 0])


if __name__ == "__main__":
    case.run("mooncake_shape")
