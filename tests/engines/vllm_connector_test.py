#!/usr/bin/env python3
"""The connector with vLLM's own configuration, tensors and types, without running an engine.

    PYTHONPATH=build/dev/python PYTHON_OF_VLLM tests/engines/vllm_connector_test.py

Skipped, and said so, with a Python that has no vLLM (tests/engines/install.sh makes one).
"""

from __future__ import annotations

import os
import sys
import unittest
from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest import mock

try:
    import torch
    from moonpool.vllm import connector
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.kv_cache_interface import SlidingWindowSpec
    from vllm_fixture import (
        BLOCK_TOKENS,
        HEAD_SIZE,
        HEADS,
        cache_of,
        config_of,
        full,
        group,
        model_folder,
    )
except ImportError as missing:
    if __name__ == "__main__":
        print(f"skipped: {missing}", file=sys.stderr)
        sys.exit(77)
    raise unittest.SkipTest(str(missing)) from missing


class ConnectorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = cls.enterClassContext(model_folder())

    def setUp(self) -> None:
        # What a connector says at start comes when it comes, amid what other tests look at.
        self.at_start = mock.patch.object(connector.MoonpoolConnector, "_greet")
        self.at_start.start()
        self.addCleanup(mock.patch.stopall)

    def config(self, **config: Any) -> Any:
        """vLLM's configuration, as its command line makes it."""
        return config_of(self.folder, **config)

    def make(self, role: str = "SCHEDULER", cache: Any = None, **config: Any) -> Any:
        """A connector."""
        made = connector.MoonpoolConnector(
            self.config(**config), KVConnectorRole[role],
            cache or cache_of(group(full(), "a", "b")))
        self.addCleanup(made.shutdown)
        return made

    def test_what_cannot_work_is_refused_with_the_way_out(self) -> None:
        window = SlidingWindowSpec(block_size=BLOCK_TOKENS, num_kv_heads=HEADS,
                                   head_size=HEAD_SIZE, dtype=torch.bfloat16, sliding_window=64)
        hybrid = cache_of(group(full(), "a"), group(window, "b"))
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("--prefix-caching-hash-algo sha256_cbor", {"algorithm": "sha256"}),
            ('"kv_load_failure_policy": "recompute"', {"policy": "fail"}),
            ("use the tier", {"cache": hybrid}),
            ("did you mean 'replicas'", {"replica": 2}),
            ("masters must be host:port", {"masters": "10.0.0.1"}),
            ("namespace must be 1 to 100", {"namespace": "two words"}),
        ]
        for message, arguments in wrong:
            with self.subTest(message), self.assertRaises(ValueError) as raised:
                self.make(**arguments)
            self.assertIn(message, str(raised.exception))
        self.make(algorithm="sha256", allow_private_hashes=True)

    def test_it_says_at_start_that_no_master_answers(self) -> None:
        self.at_start.stop()
        with self.assertLogs("vllm.moonpool", "WARNING") as logged:
            self.make()._lookups.close()  # when all that was begun has ended
        self.assertIn("cannot connect: UNAVAILABLE", logged.output[-1])
        self.assertIn("127.0.0.1:1", logged.output[-1])

    def test_a_random_root_needs_a_seed(self) -> None:
        try:
            import xxhash  # noqa: F401
        except ImportError:
            self.skipTest("this vLLM has no xxhash")
        with mock.patch.dict(os.environ):
            os.environ.pop("PYTHONHASHSEED", None)
            with self.assertRaisesRegex(ValueError, "PYTHONHASHSEED"):
                self.make(algorithm="xxhash_cbor")
            os.environ["PYTHONHASHSEED"] = "0"
            self.make(algorithm="xxhash_cbor")

    def test_scheduler_and_workers_meet_and_others_do_not(self) -> None:
        def namespace(layers: str = "ab", **config: Any) -> str:
            made = self.config(**config)
            options = connector.Options.parse(made.kv_transfer_config.kv_connector_extra_config)
            cache = cache_of(group(full(), *layers))
            return connector.layout_of(made, cache, options).namespace(options.namespace)

        same = namespace()
        self.assertEqual(namespace(), same)
        self.assertTrue(namespace(model="org/Llama 3").startswith("vllm/Llama-3."))
        others = {namespace(model="x"), namespace(revision="2"), namespace(tag="y"),
                  namespace(algorithm="sha256", allow_private_hashes=True), same}
        with mock.patch.dict(os.environ, {"PYTHONHASHSEED": "7"}):
            others.add(namespace())
        scaled = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
        others |= {namespace(layers="abd"), namespace(arguments={"max_model_len": 256}),
                   namespace(arguments={"hf_overrides": scaled}),
                   namespace(arguments={"dtype": "float32"}),
                   namespace(arguments={"revision": "v2"})}
        with mock.patch.object(connector, "vllm_version", "0.32.1"):
            others.add(namespace())
        self.assertEqual(len(others), 12)
        here = namespace(model="x")
        with model_folder() as self.folder:
            self.assertEqual(namespace(model="x"), here)

    def test_workers_go_where_the_scheduler_says(self) -> None:
        scheduler, worker = self.make(), self.make("WORKER")
        worker._vllm_config.model_config.hf_config.changed_by_loading = True
        work = scheduler.build_connector_meta(
            SimpleNamespace(num_scheduled_tokens={}, kv_connector_block_state=None))
        worker.bind_connector_metadata(work)
        worker._work()
        made = []
        with mock.patch.object(connector, "connector", lambda *to: lambda: made.append(to[:2])):
            scheduler._connect()
            worker._connect()
        self.assertEqual(made[0], made[1])
        self.assertTrue(made[0][0].startswith("vllm/"), made)

    def test_blocks_of_any_memory_order(self) -> None:
        blocks, content = 8, 2 * HEAD_SIZE
        shape = (2, blocks, HEADS, BLOCK_TOKENS, content)  # layer, block, head, token, content
        page = HEADS * BLOCK_TOKENS * content * 2
        cache = cache_of(group(full(), "a", "b"), blocks=blocks)
        for order, pieces in {(0, 1, 2, 3, 4): 2, (1, 0, 2, 3, 4): 1, (0, 2, 1, 3, 4): 2 * HEADS,
                              (1, 0, 3, 2, 4): 1}.items():
            memory = torch.arange(2 * blocks * page // 2).to(torch.int16).view(torch.bfloat16)
            view = memory.view([shape[dim] for dim in order])
            view = view.permute([order.index(dim) for dim in range(5)])
            layers = connector.layers_of({"a": view[0], "b": view[1]}, cache)
            made = connector.HostBlocks(layers, connector._memory_at)
            with self.subTest(order):
                self.assertEqual((made.block_bytes, made.pieces_per_block), (2 * page, pieces))
                seen = b"".join(bytes(memoryview(piece)) for piece in made.buffers(3))
                want = torch.cat([view[layer, 3].flatten() for layer in range(2)])
                self.assertEqual(
                    Counter(memoryview(seen).cast("H")),
                    Counter(want.view(torch.int16).numpy().view("uint16").tolist()))

    def test_kernel_blocks_and_layers_that_share(self) -> None:
        cache = cache_of(group(full(), "a", "shared"), blocks=4)
        tensor = torch.zeros(8, HEADS, BLOCK_TOKENS // 2, 2 * HEAD_SIZE, dtype=torch.bfloat16)
        (layer,) = connector.layers_of({"a": tensor}, cache)
        self.assertEqual(layer.block_stride, 2 * tensor[0].numel() * 2)
        self.assertEqual(layer.runs, ((0, layer.block_stride),))

    def test_reports_of_ranks_add_up(self) -> None:
        report = connector.StepReport(Counter({1: 1}), {"r"}).aggregate(
            connector.StepReport(Counter({1: 1, 2: 1}), set()))
        self.assertEqual((report.saved, report.lost), (Counter({1: 2, 2: 1}), {"r"}))

    def test_a_step_goes_on_when_there_is_no_pool(self) -> None:
        made = self.make()
        request = SimpleNamespace(request_id="r", num_tokens=100, num_prompt_tokens=100,
                                  num_computed_tokens=0, block_hashes=[b"0", b"1", b"2"])
        self.assertEqual(made.get_num_new_matched_tokens(request, 0), (None, False))
        made._lookups.close()  # runs the lookup
        self.assertEqual(made.get_num_new_matched_tokens(request, 0), (0, False))
        self.assertEqual(made.request_finished_all_groups(request, ([],)), (False, None))

    def test_a_lookup_that_raises_is_a_miss(self) -> None:
        made = self.make()
        with mock.patch.object(made._planner, "matched", side_effect=TypeError("a bug")), \
                self.assertLogs("vllm.moonpool", "ERROR") as logged:
            self.assertEqual(made.get_num_new_matched_tokens(SimpleNamespace(), 0), (0, False))
        self.assertIn("a bug", logged.output[0])

    def test_a_reset_for_other_weights_works_and_ends_all_sharing(self) -> None:
        made = self.make()
        pool = BlockPool(num_gpu_blocks=8, enable_caching=True, hash_block_size=BLOCK_TOKENS)
        made.bind_gpu_block_pool(pool)
        request = SimpleNamespace(request_id="r", num_tokens=70, num_prompt_tokens=70,
                                  num_computed_tokens=0, block_hashes=[b"0", b"1"])
        blocks = pool.get_new_blocks(3)
        ids = [block.block_id for block in blocks]

        def step(tokens: int) -> Any:
            return made.build_connector_meta(SimpleNamespace(
                num_scheduled_tokens={"r": tokens} if tokens else {},
                kv_connector_block_state=SimpleNamespace(get_block_ids=lambda name: (ids,))))

        made._planner.allocated(request, ids, 0)
        (save,) = step(70).saves
        self.assertEqual((save.blocks, made.has_pending_push_work()), (ids[:2], True))
        self.assertFalse(pool.reset_prefix_cache(), "the request holds blocks, too")
        self.assertFalse(step(0).cut_off)
        pool.free_blocks(blocks)  # preempted, as vLLM does before a reset
        self.assertTrue(pool.reset_prefix_cache(), "only the save held blocks")
        with self.assertLogs("vllm.moonpool", "WARNING") as logged:
            self.assertEqual([made.reset_cache(), made.reset_cache()], [True, True])
        self.assertEqual(len(logged.output), 1)
        self.assertTrue(step(0).cut_off, "before anything is written, workers stop reading")
        made._planner.allocated(request, ids, 0)
        self.assertEqual((step(70).saves, made.get_num_new_matched_tokens(request, 0)),
                         ([], (0, False)))

    def test_fixed_weights_stay_with_the_pool(self) -> None:
        made = self.make(fixed_weights=True)
        self.assertIs(made.reset_cache(), True)
        request = SimpleNamespace(request_id="r", num_tokens=100, num_prompt_tokens=100,
                                  num_computed_tokens=0, block_hashes=[b"0", b"1", b"2"])
        self.assertEqual(made.get_num_new_matched_tokens(request, 0), (None, False))


if __name__ == "__main__":
    unittest.main()
