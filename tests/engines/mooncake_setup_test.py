#!/usr/bin/env python3
"""mooncake.store on Moonpool: setup, the numbers of errors, and what needs no pool.

    python3 tests/engines/mooncake_setup_test.py [-v] [CLASS[.TEST] ...]

MOONPOOL_BUILD names the build folder (default: build/dev). Needs nothing but the standard library;
the calls on objects are in mooncake_shape_test.py.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import mooncake_case as case
import mooncake_fixture as fixture
import moonpool
from mooncake import _conflict
from mooncake._codes import ErrorCode, code_of
from mooncake._pool import Pool
from mooncake._setup import Setup, arguments_by_name, bytes_of, namespace_of
from mooncake.store import MooncakeDistributedStore
from mooncake_case import Region, WithStore


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

    def test_a_fingerprint_needs_a_namespace(self) -> None:
        master = self.pool.master
        with unittest.mock.patch.dict("os.environ", {"MOONPOOL_FINGERPRINT": "dtype=bfloat16"}):
            os.environ.pop("MOONPOOL_NAMESPACE", None)
            for named in ({}, {"namespace": "default"}, {"tenant_id": "default"}):
                store = MooncakeDistributedStore()
                with self.subTest(named), self.assertLogs("mooncake.store", "ERROR") as logged:
                    self.assertEqual(store.setup({"master_server_addr": master} | named), -600)
                self.assertIn("set MOONPOOL_NAMESPACE", logged.output[0])
            self.new_store(tenant_id="t")  # a tenant has a namespace of its own

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
                    self.new_store(global_segment_size="4GB", namespace="n", fingerprint="f")
        self.assertEqual(len(logged.output), 1)
        self.assertIn("4294967296 bytes", logged.output[0])

    def test_who_gives_no_fingerprint_is_told_once_what_that_means(self) -> None:
        with unittest.mock.patch("mooncake.store._said", set()):
            with self.assertNoLogs("mooncake.store", "WARNING"):
                self.new_store(namespace="n", fingerprint="dtype=bfloat16")
            with self.assertLogs("mooncake.store", "WARNING") as logged:
                for _ in range(2):
                    self.new_store()
        self.assertEqual(len(logged.output), 1)
        self.assertIn(self.id(), logged.output[0])
        self.assertIn("MOONPOOL_FINGERPRINT", logged.output[0])

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


class Pieces(unittest.TestCase):
    """What needs no pool."""

    def test_sizes(self) -> None:
        for text, expected in ((7, 7), ("1024", 1024), ("4GB", 4 << 30), (" 16 mb", 16 << 20),
                               ("0.5k", 512), ("2TB", 2 << 40), ("9b", 9)):
            self.assertEqual(bytes_of(text), expected)
        for wrong in ("", "GB", "much", "-1", "inf", None):
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

    def test_only_what_another_client_writes_is_waited_for(self) -> None:
        busy = moonpool.Aborted("", code="ABORTED", reason="BEING_WRITTEN")
        client = unittest.mock.Mock()
        client.put_many.side_effect = [[True, busy, busy], [False, busy]]
        self.assertEqual(Pool(client, timeout=1.5).put(["a", "b", "c"], [b"1", b"2", b"3"], 1),
                         [0, 0, -703])
        first, second = client.put_many.call_args_list
        self.assertNotIn("wait_for_writer", first.kwargs)
        self.assertEqual(second.args, (["b", "c"], [b"2", b"3"]))
        self.assertTrue(second.kwargs["wait_for_writer"])
        self.assertLessEqual(second.kwargs["timeout"], 1.5, "of the time of the call")

    def test_a_removal_that_stops_half_way_is_no_success(self) -> None:
        away = moonpool.Unavailable("away", code="UNAVAILABLE")
        page = unittest.mock.Mock(keys=["a", "b"], next="b")
        client = unittest.mock.Mock()
        with self.assertLogs("mooncake.store", "WARNING"):
            client.list_keys.side_effect = [page, away]
            client.remove_many.return_value = [True, False]
            self.assertEqual(Pool(client, timeout=1).remove_where(None), -900)
            client.list_keys.side_effect = [page]
            client.remove_many.return_value = [True, away]
            self.assertEqual(Pool(client, timeout=1).remove_where(None), -900)

    def test_short_reads_are_for_those_who_ask_for_them(self) -> None:
        def short_reads(**config) -> bool:
            return Setup.of({"master_server_addr": "m:1"} | config).short_reads

        self.assertFalse(short_reads())
        self.assertTrue(short_reads(short_reads="true"))
        with unittest.mock.patch.dict("os.environ", {"MOONPOOL_SHORT_READS": "1"}):
            self.assertTrue(short_reads())
            self.assertFalse(short_reads(short_reads=False))
        with self.assertRaises(ValueError):
            short_reads(short_reads="perhaps")

    def test_a_failure_is_said_once_and_a_miss_never(self) -> None:
        client = unittest.mock.Mock()
        client.get_many.return_value = [
            moonpool.DataLoss("damaged", code="DATA_LOSS"),
            moonpool.Miss("gone", code="NOT_FOUND", reason="EVICTED")]
        pool = Pool(client, timeout=1)
        with self.assertLogs("mooncake.store", "WARNING") as logged:
            for _ in range(3):
                self.assertEqual(pool.get(["a", "b"]), [None, None])
        self.assertEqual(len(logged.output), 1)

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
    case.run("mooncake_setup")
