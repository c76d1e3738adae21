#!/usr/bin/env python3
"""LMCache's own native_plugin loader and adapter, with moonpool.lmcache, against a real pool.

    tests/engines/lmcache_plugin_test.py [-v] [CLASS[.TEST] ...]

Run with any Python 3.10+: it goes on in LMCache's venv, $MOONPOOL_ENGINES/lmcache (default
~/.cache/moonpool/engines). MOONPOOL_BUILD names the build folder (default: build/dev), MOONPOOL_BIN
its programs. Exit code 0: all holds; 1: something does not; 77: LMCache is not installed there.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MOONPOOL_BUILD", ROOT / "build/dev")).resolve()
ENGINES = pathlib.Path(
    os.environ.get("MOONPOOL_ENGINES", pathlib.Path.home() / ".cache/moonpool/engines"))


def enter_venv() -> None:
    """Becomes the Python of LMCache's venv; exits with 77 where there is none."""
    python = ENGINES / "lmcache/bin/python"
    if not python.exists():
        print(f"SKIPPED: LMCache is not installed in {ENGINES} (set MOONPOOL_ENGINES)")
        sys.exit(77)
    # Not its resolved path: a venv's python is a link.
    if pathlib.Path(sys.executable) != python:
        os.execv(python, [str(python), *sys.argv])


if __name__ == "__main__":
    enter_venv()
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests/harness")]
os.environ.setdefault("MOONPOOL_BIN", str(BUILD / "bin"))

import argparse  # noqa: E402
import select  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
from lmcache.v1.distributed.api import ObjectKey  # noqa: E402
from lmcache.v1.distributed.l2_adapters import create_l2_adapter  # noqa: E402
from lmcache.v1.distributed.l2_adapters.config import (  # noqa: E402
    parse_args_to_l2_adapters_config,
)
from lmcache.v1.memory_management import (  # noqa: E402
    MemoryFormat,
    MemoryObjMetadata,
    TensorMemoryObj,
)
from lmcache.v1.platform import consume_fd  # noqa: E402

import moonpool  # noqa: E402
from pool import Master, Node, Pool  # noqa: E402

DEADLINE_MS = 60_000
LAYOUT = {"dtype": "float32", "chunk_size": 256}


def key_of(number: int, **fields) -> ObjectKey:
    return ObjectKey(chunk_hash=number.to_bytes(32, "big"),
                     **{"model_name": "org/toy-model", "kv_rank": 1} | fields)


def chunk(fill: float, count: int = 1024) -> TensorMemoryObj:
    """A chunk of `count` numbers in host memory, as LMCache's first level has it."""
    data = torch.full((count,), fill, dtype=torch.float32)
    return TensorMemoryObj(
        data, MemoryObjMetadata(shape=data.shape, dtype=data.dtype, address=data.data_ptr(),
                                phy_size=data.nbytes, fmt=MemoryFormat.KV_2LTD, ref_count=1),
        parent_allocator=None)


def new_adapter(**params):
    """What LMCache makes of `--l2-adapter JSON`."""
    spec = {"type": "native_plugin", "module_path": "moonpool.lmcache", "class_name": "Connector",
            "adapter_params": {"fingerprint": LAYOUT} | params}
    parsed = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[json.dumps(spec)]))
    return create_l2_adapter(parsed.adapters[0])


def wait_for(fd: int, query):
    """What `query` returns once the adapter has something to say."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while True:
        if not poller.poll(DEADLINE_MS):
            raise TimeoutError("the adapter says nothing")
        consume_fd(fd)
        result = query()
        if result:
            return result


def store(adapter, keys, objects):
    task = adapter.submit_store_task(keys, objects)
    return wait_for(adapter.get_store_event_fd(),
                    lambda: adapter.pop_completed_store_tasks()).pop(task)


def bits(bitmap, count: int) -> list[bool]:
    return [bool(bitmap.test(i)) for i in range(count)]


def look_up(adapter, keys) -> list[bool]:
    task = adapter.submit_lookup_and_lock_task(keys, {})
    found = wait_for(adapter.get_lookup_and_lock_event_fd(),
                     lambda: [adapter.query_lookup_and_lock_result(task)])[0]
    adapter.submit_unlock(keys)
    return bits(found, len(keys))


def load(adapter, keys, objects) -> list[bool]:
    task = adapter.submit_load_task(keys, objects)
    loaded = wait_for(adapter.get_load_event_fd(), lambda: [adapter.query_load_result(task)])[0]
    return bits(loaded, len(keys))


class WithAdapter(unittest.TestCase):
    """One pool for a class; a namespace and an adapter for each test."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = Pool(nodes=2, dram="64MiB")
        cls.addClassCleanup(cls.pool.close)

    def setUp(self) -> None:
        self.adapter = self.adapter_of()

    def adapter_of(self, **params):
        adapter = new_adapter(masters=self.pool.master, namespace=self.id(), **params)
        self.addCleanup(adapter.close)
        return adapter


class Chunks(WithAdapter):
    def test_what_is_stored_is_found_and_loaded_by_another_engine(self) -> None:
        keys = [key_of(i) for i in range(8)]
        self.assertEqual(look_up(self.adapter, keys), [False] * 8)
        result = store(self.adapter, keys[:6], [chunk(i) for i in range(6)])
        self.assertTrue(result.is_successful())
        self.assertEqual(result.bytes_transferred(), 6 * 4096)

        other = self.adapter_of()
        self.assertEqual(look_up(other, keys), [True] * 6 + [False] * 2)
        into = [chunk(-1) for _ in keys]
        self.assertEqual(load(other, keys, into), [True] * 6 + [False] * 2)
        for i, obj in enumerate(into[:6]):
            self.assertTrue(torch.equal(obj.tensor, chunk(i).tensor))

    def test_storing_again_is_no_failure(self) -> None:
        for _ in range(2):
            self.assertTrue(store(self.adapter, [key_of(1)], [chunk(1)]).is_successful())

    def test_keys_are_lmcaches_own(self) -> None:
        key = key_of(7, object_group_id=10, cache_salt="user-1")
        store(self.adapter, [key], [chunk(7)])
        with moonpool.Client(self.pool.master, namespace=self.id()) as client:
            self.assertTrue(client.exists(
                f"org/toy-model@00000001@a@{7:064x}@user-1"))
        self.assertEqual(look_up(self.adapter, [key_of(7, object_group_id=10)]), [False])

    def test_a_chunk_of_another_size_is_not_loaded(self) -> None:
        store(self.adapter, [key_of(1), key_of(2)], [chunk(1, count=8), chunk(2)])
        self.assertEqual(
            load(self.adapter, [key_of(1), key_of(2), key_of(1)],
                 [chunk(0), chunk(0), chunk(0, count=4)]), [False, True, False])

    def test_eviction_by_lmcache_deletes(self) -> None:
        keys = [key_of(1), key_of(2)]
        store(self.adapter, keys, [chunk(1), chunk(2)])
        self.assertEqual(self.adapter.get_usage().total_bytes_used, 2 * 4096)
        self.adapter.delete([*keys, key_of(3)])
        self.assertEqual(look_up(self.adapter, keys), [False, False])
        self.assertEqual(self.adapter.get_usage().total_bytes_used, 0)

    def test_many_batches_at_once(self) -> None:
        chunks = [chunk(i) for i in range(100)]  # LMCache's memory: buffers do not keep it
        tasks = {self.adapter.submit_store_task([key_of(i)], [chunks[i]]) for i in range(100)}
        done = {}
        while tasks - set(done):
            done |= wait_for(self.adapter.get_store_event_fd(),
                             lambda: self.adapter.pop_completed_store_tasks())
        self.assertTrue(all(result.is_successful() for result in done.values()))
        keys = [key_of(i) for i in range(100)]
        into = [chunk(-1) for _ in keys]
        self.assertEqual(load(self.adapter, keys, into), [True] * 100)
        self.assertTrue(all(torch.equal(into[i].tensor, chunks[i].tensor) for i in range(100)))


class WrongConfigurations(WithAdapter):
    def test_are_told_when_the_adapter_is_made(self) -> None:
        for params, kind, said in [
            ({"fingerprint": ""}, ValueError, "has no fingerprint"),
            ({"fingerprint": {"dtype": "float16"}}, moonpool.FailedPrecondition, "float16"),
            ({"path": "rdma"}, ValueError, "path must be auto"),
            ({"threads": 0}, ValueError, "threads must be 1 to 256"),
            ({"load_timeout": 0}, ValueError, "load_timeout must be above 0"),
            ({"master": "127.0.0.1:1"}, ValueError, "did you mean 'masters'"),
        ]:
            with self.subTest(params), self.assertRaisesRegex(kind, said):
                self.adapter_of(**params)

    def test_a_master_that_is_not_there(self) -> None:
        with self.assertRaises(moonpool.Unavailable):
            new_adapter(masters="127.0.0.1:1", load_timeout=1)


class Outages(unittest.TestCase):
    def test_without_a_master_batches_fail_and_nothing_hangs(self) -> None:
        with Master() as master:
            with Node(master.address, "n1", dram="64MiB"):
                # With wait_for_space the first store waits for the node, too.
                adapter = new_adapter(masters=master.address, wait_for_space=True)
                self.addCleanup(adapter.close)
                self.assertTrue(store(adapter, [key_of(1)], [chunk(1)]).is_successful())
                master.kill()
                self.assertEqual(look_up(adapter, [key_of(1)]), [False])
                self.assertFalse(store(adapter, [key_of(2)], [chunk(2)]).is_successful())
                # Most of these are not tried: they are done at once, and LMCache sees no difference.
                for _ in range(20):
                    self.assertEqual(look_up(adapter, [key_of(1), key_of(2)]), [False, False])
                self.assertEqual(load(adapter, [key_of(1)], [chunk(-1)]), [False])
                self.assertTrue(adapter.report_status()["is_healthy"])


class ConnectorTest(WithAdapter):
    """The connector itself, where LMCache shows too little of it."""

    def setUp(self) -> None:
        self.connector = moonpool.lmcache.Connector(
            masters=self.pool.master, namespace=self.id(), fingerprint="test")
        self.addCleanup(self.connector.close)

    def drain(self, count: int) -> dict[int, tuple[bool, str, list[bool]]]:
        poller = select.poll()
        poller.register(self.connector.event_fd(), select.POLLIN)
        drained = {}
        while len(drained) < count:
            self.assertTrue(poller.poll(DEADLINE_MS))
            for number, *rest in self.connector.drain_completions():
                drained[number] = tuple(rest)
        self.assertEqual(poller.poll(0), [])
        return drained

    def test_one_bad_key_costs_only_itself(self) -> None:
        number = self.connector.submit_batch_exists(["k", "x" * 1025])
        ok, error, results = self.drain(1)[number]
        self.assertTrue(ok)
        self.assertIn("KEY_TOO_LONG", error)
        self.assertEqual(results, [False, False])
        number = self.connector.submit_batch_set(["k", ""], [b"value", b""])
        self.assertEqual(self.drain(1)[number][0::2], (False, [True, False]))

    def test_wrong_usage_raises(self) -> None:
        for call in (lambda: self.connector.submit_batch_set(["k"], []),
                     lambda: self.connector.submit_batch_get(["k"], [b"read-only"]),
                     lambda: self.connector.submit_batch_exists("k")):
            with self.assertRaises((TypeError, BufferError, ValueError)):
                call()

    def test_a_queue_that_is_full_completes_at_once(self) -> None:
        self.connector = moonpool.lmcache.Connector(
            masters=self.pool.master, namespace=self.id(), fingerprint="test", threads=1, queue=1)
        self.addCleanup(self.connector.close)
        numbers = [self.connector.submit_batch_exists(["k"]) for _ in range(200)]
        drained = self.drain(200)
        self.assertEqual(sorted(drained), numbers)
        refused = [error for ok, error, _ in drained.values() if not ok]
        self.assertTrue(all("LIMIT_REACHED" in error for error in refused))

    def test_after_close_batches_fail_and_buffers_are_given_back(self) -> None:
        value = bytearray(1 << 20)
        self.connector.submit_batch_set(["k"], [value])
        self.connector.close()
        value.extend(b"more")  # BufferError while somebody has it
        number = self.connector.submit_batch_set(["l"], [b"value"])
        done = {entry[0]: entry[1:] for entry in self.connector.drain_completions()}
        self.assertEqual(done[number][0::2], (False, [False]))
        self.assertIn("closed", done[number][1])
        self.connector.close()


if __name__ == "__main__":
    unittest.main()
