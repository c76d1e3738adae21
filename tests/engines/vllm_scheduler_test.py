#!/usr/bin/env python3
"""The connector in vLLM's own scheduler: what becomes of blocks when requests end at a bad moment.

    PYTHONPATH=build/dev/python PYTHON_OF_VLLM tests/engines/vllm_scheduler_test.py

There are no workers: a test says what they report. Skipped, and said so, with a Python that has no
vLLM (tests/engines/install.sh makes one).
"""

from __future__ import annotations

import sys
import unittest
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "client_sdk/python/tests"))

try:
    import vllm_fixture as shapes
    from fake_client import FakePool
    from moonpool.vllm import connector
    from moonpool.vllm.layout import block_key
    from vllm import SamplingParams
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus
    from vllm.v1.structured_output import StructuredOutputManager
    from vllm_bench import AtOnce
except ImportError as missing:
    if __name__ == "__main__":
        print(f"skipped: {missing}", file=sys.stderr)
        raise SystemExit(77) from missing
    raise unittest.SkipTest(str(missing)) from missing

BLOCKS = 8  # one of which vLLM never gives away
FULL, PROMPT = 3, 100  # full blocks of a prompt of so many tokens


class SchedulerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = self.enterContext(shapes.model_folder())
        self.fake = FakePool()
        self.enterContext(mock.patch.multiple(
            connector, connector=lambda *_: self.fake.connect, Workers=lambda *_: AtOnce()))

    def start(self, **options: Any) -> None:
        """A scheduler with one request."""
        config = shapes.config_of(self.folder, max_pinned=1.0, **options)
        config.cache_config.num_gpu_blocks = BLOCKS
        hashed = get_hash_fn_by_name("sha256_cbor")
        kv_cache_utils.init_none_hash(hashed)
        self.scheduler = Scheduler(
            config, shapes.cache_of(shapes.group(shapes.full(), "a", "b"), blocks=BLOCKS),
            StructuredOutputManager(config), shapes.BLOCK_TOKENS, shapes.BLOCK_TOKENS)
        self.addCleanup(self.scheduler.shutdown)
        self.request = Request(
            "r", list(range(PROMPT)), SamplingParams(max_tokens=8), None,
            block_hasher=kv_cache_utils.get_request_block_hasher(shapes.BLOCK_TOKENS, hashed))
        self.scheduler.add_request(self.request)

    def step(self, *, loaded: Iterable[str] = (), saved: Mapping[int, int] = {}) -> Any:
        """The work of a step, after which workers report what they have ended."""
        output = self.scheduler.schedule()
        names = list(output.num_scheduled_tokens)
        self.scheduler.update_from_output(output, ModelRunnerOutput(
            req_ids=names, req_id_to_index={name: at for at, name in enumerate(names)},
            sampled_token_ids=[[7] for _ in names],
            kv_connector_output=KVConnectorOutput(
                finished_recving=set(loaded) or None,
                kv_connector_worker_meta=connector.StepReport(Counter(saved), set()))))
        return output.kv_connector_metadata

    @property
    def used(self) -> int:
        """Blocks that are in use."""
        return BLOCKS - 1 - self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()

    def reset(self) -> bool:
        """What vLLM does when it pauses for other weights."""
        return self.scheduler.reset_prefix_cache(
            reset_running_requests=True, reset_connector=True)

    def test_an_abort_while_blocks_are_loaded(self) -> None:
        self.start()
        self.fake.objects = {block_key("t0p0", h): b"" for h in self.request.block_hashes}
        self.step()  # asks the pool
        (load,) = self.step().loads
        self.assertEqual((len(load.blocks), self.request.status),
                         (FULL, RequestStatus.WAITING_FOR_REMOTE_KVS))
        self.scheduler.finish_requests("r", RequestStatus.FINISHED_ABORTED)
        self.assertGreaterEqual(self.used, FULL, "workers still write to them")
        self.step(loaded=["r"])
        self.assertEqual(self.used, 0)
        self.assertTrue(self.reset())

    def test_a_request_ends_while_its_blocks_are_saved(self) -> None:
        self.start()
        self.step()
        (save,) = self.step().saves
        self.scheduler.finish_requests("r", RequestStatus.FINISHED_ABORTED)
        self.assertEqual((self.used, self.scheduler.has_requests()), (FULL, True))
        self.step(saved={save.job: 1})
        self.assertEqual(self.used, 0)
        self.step()
        self.assertFalse(self.scheduler.has_requests())

    def test_other_weights_while_blocks_are_saved(self) -> None:
        self.start()
        self.step()
        (save,) = self.step().saves
        self.assertTrue(self.reset())
        self.assertEqual(self.used, 0)
        work = self.step(saved={save.job: 1})
        self.assertEqual((work.cut_off, work.loads, work.saves), (True, [], []))
        self.assertGreater(self.request.num_computed_tokens, PROMPT, "it was computed again")
        self.assertEqual(self.fake.calls, ["match"])

    def test_a_preemption_while_blocks_are_saved(self) -> None:
        self.start(fixed_weights=True)
        self.step()
        (save,) = self.step().saves
        self.assertTrue(self.reset())
        self.step()  # asks again: it might be there now
        work = self.step()
        self.assertEqual((work.saves[0].job, len(work.saves[0].blocks)), (save.job + 1, FULL))
        self.scheduler.finish_requests("r", RequestStatus.FINISHED_ABORTED)
        self.step(saved={save.job: 1, save.job + 1: 1})
        self.assertEqual(self.used, 0)


if __name__ == "__main__":
    unittest.main()
