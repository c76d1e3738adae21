#!/usr/bin/env python3
"""mooncake.store on Moonpool: what every call returns, against a real pool.

    python3 tests/engines/mooncake_shape_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). Needs nothing but the standard library;
engines' own back ends run on it in mooncake_sglang_test.py and mooncake_vllm_test.py.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import sys
import tempfile
import threading
import unittest
import unittest.mock

import mooncake_fixture as fixture

fixture.add_paths()

import moonpool  # noqa: E402
from mooncake import _conflict  # noqa: E402
from mooncake._codes import ErrorCode, code_of  # noqa: E402
from mooncake._setup import Setup, arguments_by_name, bytes_of, namespace_of  # noqa: E402
from mooncake.store import (  # noqa: E402
    MooncakeDistributedStore,
    MooncakeHostMemAllocator,
    ReplicateConfig,
)


class Region:
    """Some memory of the test's, by address."""

    def __init__(self, content: bytes | int) -> None:
        size = content if isinstance(content, int) else len(content)
        self._bytes = ctypes.create_string_buffer(size)
        self.ptr = ctypes.addressof(self._bytes)
        if not isinstance(content, int):
            ctypes.memmove(self.ptr, content, size)

    def read(self, begin: int, end: int) -> bytes:
        return self._bytes.raw[begin:end]


class WithStore(unittest.TestCase):
    """One pool of two nodes for a class; each test has a namespace of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = fixture.new_pool(nodes=2, dram="64MiB")
        cls.addClassCleanup(cls.pool.close)

    def setUp(self) -> None:
        self.store = self.new_store()

    def new_store(self, **config) -> MooncakeDistributedStore:
        store = MooncakeDistributedStore()
        named = {"master_server_addr": self.pool.master, "tenant_id": self.id()} | config
        self.assertEqual(store.setup(named), 0)
        self.addCleanup(store.close)
        return store


class Setups(WithStore):
    ARGUMENTS = ("host:1", "P2PHANDSHAKE", 64 << 20, 16 << 20, "tcp", "")

    def test_both_forms_connect(self) -> None:
        store = MooncakeDistributedStore()
        self.assertEqual(store.setup(*self.ARGUMENTS, self.pool.master, None, tenant_id="t1"), 0)
        self.assertEqual(store.get_hostname(), "host:1")
        self.assertEqual(store.put("k", b"v"), 0)
        other = MooncakeDistributedStore()
        self.assertEqual(other.setup({"local_hostname": "h", "metadata_server": "P2PHANDSHAKE",
                                      "global_segment_size": "4GB", "device_name": "",
                                      "master_server_address": self.pool.master,
                                      "tenant_id": "t1", "what is this": "1"}), 0)
        self.assertEqual(other.get("k"), b"v")
        self.assertEqual(store.close(), 0)
        self.assertEqual(other.close(), 0)

    def test_setup_dummy_takes_the_masters_address(self) -> None:
        store = MooncakeDistributedStore()
        self.assertEqual(store.setup_dummy(1 << 20, 1 << 20, self.pool.master), 0)
        self.assertEqual(store.health_check(), 0)
        store.close()

    def test_again_is_a_new_beginning(self) -> None:
        self.store.put("k", b"v")
        self.assertEqual(self.store.setup({"master_server_addr": self.pool.master,
                                           "tenant_id": "another"}), 0)
        self.assertEqual(self.store.get("k"), b"")

    def test_what_cannot_be_is_refused(self) -> None:
        store = MooncakeDistributedStore()
        with self.assertLogs("mooncake.store", "ERROR"):
            self.assertEqual(store.setup(*self.ARGUMENTS, "etcd://127.0.0.1:2379"), -600)
            self.assertEqual(store.setup({"master_server_addr": self.pool.master,
                                          "global_segment_size": "much"}), -600)
            self.assertEqual(store.setup({"master_server_addr": "nowhere"}), -600)
            self.assertEqual(store.setup({"master_server_addr": "127.0.0.1:1"}), -900)
        with self.assertRaisesRegex(TypeError, "missing: metadata_server"):
            store.setup("host")
        with self.assertRaisesRegex(TypeError, "unknown: tenant"):
            store.setup(*self.ARGUMENTS, self.pool.master, tenant="t")
        self.assertEqual(store.health_check(), 1)

    def test_tenants_do_not_see_each_other(self) -> None:
        first, second = self.new_store(tenant_id="a"), self.new_store(tenant_id="b")
        first.put("k", b"of a")
        self.assertEqual(second.is_exist("k"), 0)
        self.assertEqual(second.remove_all(), 0)
        self.assertEqual(first.get("k"), b"of a")

    def test_a_fingerprint_keeps_other_layouts_out(self) -> None:
        self.new_store(namespace="llama", fingerprint="bf16")
        other = MooncakeDistributedStore()
        with self.assertLogs("mooncake.store", "ERROR") as logged:
            self.assertEqual(other.setup({"master_server_addr": self.pool.master,
                                          "tenant_id": self.id(), "namespace": "llama",
                                          "fingerprint": "fp8"}), -600)
        self.assertIn("bf16", logged.output[0])

    def test_the_environment_names_master_and_namespace(self) -> None:
        environment = {"MOONPOOL_MASTER": self.pool.master, "MOONPOOL_NAMESPACE": "of-env",
                       "MOONPOOL_FINGERPRINT": "f", "MOONPOOL_TIMEOUT": "2.5"}
        with unittest.mock.patch.dict("os.environ", environment):
            setup = Setup.of({})
            self.assertEqual((setup.masters, setup.namespace, setup.fingerprint, setup.timeout),
                             (self.pool.master, "of-env", "f", 2.5))
            self.assertEqual(Setup.of({"namespace": "x", "tenant_id": "t"}).namespace, "x/t")
            store = MooncakeDistributedStore()
            self.assertEqual(store.setup({}), 0)
            store.put("k", b"v")
            store.close()
        with moonpool.Client(self.pool.master, namespace="of-env") as client:
            self.assertEqual(client.get("k"), b"v")

    def test_a_segment_is_not_lent_and_that_is_said_once(self) -> None:
        with unittest.mock.patch("mooncake.store._said", set()):
            with self.assertLogs("mooncake.store", "WARNING") as logged:
                for _ in range(2):
                    self.new_store(global_segment_size="4GB")
        self.assertEqual(len(logged.output), 1)
        self.assertIn("4294967296 bytes", logged.output[0])

    def test_health_follows_the_master(self) -> None:
        with fixture.new_master() as master:
            store = MooncakeDistributedStore()
            self.assertEqual(store.setup({"master_server_addr": master.address}), 0)
            self.assertEqual(store.health_check(), 0)
            master.kill()
            self.assertEqual(store.health_check(), 2)
            self.assertEqual(store.is_exist("k"), -900)
            store.close()
        self.assertEqual(store.health_check(), 1)

    def test_closed_and_not_set_up_answer_alike(self) -> None:
        self.store.close()
        region = Region(8)
        for store in (self.store, MooncakeDistributedStore()):
            self.assertEqual(store.close(), 0)
            self.assertEqual(store.put("k", b"v"), -1010)
            self.assertEqual(store.put_batch(["k"], [b"v"]), -1010)
            self.assertEqual(store.get("k"), b"")
            self.assertIsNone(store.get_buffer("k"))
            self.assertEqual(store.get_into("k", region.ptr, 8), -1010)
            self.assertEqual(store.batch_is_exist(["k", "l"]), [-1010, -1010])
            self.assertEqual(store.get_size("k"), -1010)
            self.assertEqual(store.get_replica_desc("k"), [])
            self.assertEqual(store.remove("k"), -1010)
            self.assertEqual(store.remove_all(), -1010)
            self.assertEqual(store.health_check(), 1)


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
        self.assertEqual(self.store.get_into("d", region.ptr, 8), 0)

    def test_put_from_memory(self) -> None:
        region = Region(b"0123456789")
        self.assertEqual(self.store.put_from("f", region.ptr, 4), 0)
        self.assertEqual(self.store.batch_put_from(["g", "h"], [region.ptr, region.ptr + 5], [2, 3],
                                                   ReplicateConfig()), [0, 0])
        self.assertEqual(self.store.get_batch(["f", "g", "h"]), [b"0123", b"01", b"567"])
        self.assertEqual(self.store.batch_put_from_multi_buffers(
            ["m", "n"], [[region.ptr + 8, region.ptr], [region.ptr]], [[2, 2], [1]]), [0, 0])
        self.assertEqual(self.store.get_batch(["m", "n"]), [b"8901", b"0"])

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
        self.assertEqual(self.store.get_into("a", ptr, 32), 5)
        self.assertEqual(region.read(0, 5), b"hello")
        self.assertEqual(self.store.get_into("a", ptr, 4), -600)
        self.assertEqual(self.store.get_into("never", ptr, 32), -704)
        self.assertEqual(self.store.get_into("a", 0, 32), -600)
        self.assertEqual(self.store.batch_get_into(["b", "never", "a"], [ptr, ptr + 8, ptr + 16],
                                                   [8, 8, 3]), [6, -704, -600])
        self.assertEqual(self.store.batch_get_into(["a", "b"], [ptr], [5, 6]), [-600, -600])
        self.assertEqual(self.store.batch_get_into([], [], []), [])

    def test_a_key_twice_fills_both_buffers(self) -> None:
        """The original leaves one of them as it was."""
        region = Region(16)
        self.assertEqual(self.store.batch_get_into(["a", "a"], [region.ptr, region.ptr + 8],
                                                   [8, 8]), [5, 5])
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
            self.assertEqual(other.alloc(1 << 60), 0)


class Pieces(unittest.TestCase):
    """What needs no pool."""

    def test_sizes(self) -> None:
        for text, expected in ((7, 7), ("1024", 1024), ("4GB", 4 << 30), (" 16 mb", 16 << 20),
                               ("0.5k", 512), ("2TB", 2 << 40), ("9b", 9)):
            self.assertEqual(bytes_of(text), expected)
        for wrong in ("", "GB", "much", "-1", None):
            with self.assertRaises(ValueError):
                bytes_of(wrong)

    def test_namespaces(self) -> None:
        self.assertEqual(namespace_of("", "default"), "default")
        self.assertEqual(namespace_of("", "t"), "t")
        self.assertEqual(namespace_of("n", "default"), "n")
        self.assertEqual(namespace_of("n", "t"), "n/t")

    def test_arguments_by_name(self) -> None:
        config = {"master_server_addr": "m:1"}
        self.assertEqual(arguments_by_name((config,), {}), config)
        self.assertEqual(arguments_by_name((), {"config": config}), config)
        with self.assertRaisesRegex(TypeError, "at most 13"):
            arguments_by_name(tuple(range(14)), {})
        with self.assertRaisesRegex(TypeError, "given twice: local_hostname"):
            arguments_by_name(("h", "m", 0, 0, "tcp", "", "m:1"), {"local_hostname": "h"})

    def test_every_error_has_a_number(self) -> None:
        def number(code: str, reason: str = "") -> int:
            return code_of(moonpool.MoonpoolError("", code=code, reason=reason))

        self.assertEqual(number("NOT_FOUND", "EVICTED"), -704)
        self.assertEqual(number("NOT_FOUND", "BEING_WRITTEN"), -703)
        self.assertEqual(number("NOT_FOUND", "NAMESPACE_UNKNOWN"), -1701)
        self.assertEqual(number("RESOURCE_EXHAUSTED", "NO_SPACE"), -200)
        self.assertEqual(number("UNAVAILABLE"), -900)
        self.assertEqual(number("UNAVAILABLE", "NO_NODES"), -200)
        self.assertEqual(number("DEADLINE_EXCEEDED"), -901)
        self.assertEqual(number("SOMETHING_NEW"), -1)
        self.assertTrue(all(code < 0 for code in ErrorCode if code is not ErrorCode.OK))

    def test_beside_the_original_it_refuses(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            info = pathlib.Path(folder, "mooncake_transfer_engine_non_cuda-0.3.13.dist-info")
            info.mkdir()
            (info / "METADATA").write_text(
                "Metadata-Version: 2.1\nName: mooncake-transfer-engine-non-cuda\n")
            with unittest.mock.patch.object(sys, "path", [folder, *sys.path]):
                with self.assertRaisesRegex(ImportError, "mooncake-transfer-engine-non-cuda"):
                    _conflict.refuse_beside_the_original()
        _conflict.refuse_beside_the_original()


class MastersPage(unittest.TestCase):
    def test_names_the_segments_one_a_line(self) -> None:
        with fixture.new_master() as master:
            self.assertEqual(fixture.fetch(master.http, "/get_all_segments"), "")
            with fixture.new_node(master.address, "alpha"):
                fixture.wait_for_node(master.address)
                self.assertEqual(fixture.fetch(master.http, "/get_all_segments"), "alpha\n")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    result = program.result
    print(json.dumps({"test": "mooncake_shape", "ran": result.testsRun,
                      "failed": len(result.failures) + len(result.errors),
                      "skipped": len(result.skipped)}))
    sys.exit(0 if result.wasSuccessful() else 1)
