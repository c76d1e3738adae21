#!/usr/bin/env python3
"""A vLLM engine that is told by lines what to do: the child of vllm_two_process.py.

    vllm_engine.py plain|connector|tier MODEL_FOLDER [MASTER [fixed_weights]]

Each line of stdin is a JSON object, each answer a line of JSON on stdout; all else goes to stderr.
    {"do": "generate", "prompts": [[7, 9, ...]], "tokens": 8}
        -> {"tokens": [[...]], "cached": [4096], "seconds": 0.4}   greedy; seconds for all of them
    {"do": "settle"}   -> {}           when all that was computed is in the pool (one process only)
    {"do": "reset"}    -> {}           after it the engine's own caches are empty
    {"do": "new_weights"} -> {}        as if its weights had been changed, while it is busy
    {"do": "metrics"}  -> {"vllm:external_prefix_cache_hits": 4096, ...}   vLLM's counters
The engine ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

BLOCK_TOKENS = 128


def transfer_config(mode: str, master: str, *, fixed_weights: bool) -> dict[str, Any] | None:
    """--kv-transfer-config of the mode."""
    pool = {"masters": master, "model": "tiny", "revision": "1", "fixed_weights": fixed_weights}
    if mode == "connector":
        return {
            "kv_connector": "MoonpoolConnector",
            "kv_connector_module_path": "moonpool.vllm.connector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": pool,
        }
    if mode == "tier":
        tier = {"type": "moonpool", **pool}  # by its entry point
        return {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "spec_name": "CpuTieringSpec",
                "spec_module_path": "vllm_cpu_spec",
                "cpu_bytes_to_use": 512 << 20,
                "secondary_tiers": [tier],
            },
        }
    return None


class Engine:
    """vLLM on a CPU with a model without a tokenizer. float32: no near ties between tokens, so that
    computing a prompt in one piece or in two gives the same ones."""

    def __init__(self, mode: str, model: str, master: str = "", *options: str) -> None:
        from vllm import LLM

        self._mode = mode
        self._llm = LLM(
            model,
            skip_tokenizer_init=True,
            dtype="float32",
            block_size=BLOCK_TOKENS,
            max_model_len=8192,
            max_num_batched_tokens=8192,
            max_num_seqs=8,
            enforce_eager=True,
            distributed_executor_backend="uni",
            prefix_caching_hash_algo="sha256_cbor",
            disable_log_stats=False,
            kv_transfer_config=transfer_config(
                mode, master, fixed_weights="fixed_weights" in options),
        )

    def generate(self, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
        """Greedy continuations."""
        from vllm import SamplingParams

        how = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        began = time.monotonic()
        outputs = self._llm.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts], how, use_tqdm=False)
        return {
            "seconds": time.monotonic() - began,
            "tokens": [list(output.outputs[0].token_ids) for output in outputs],
            "cached": [output.num_cached_tokens for output in outputs],
        }

    def settle(self) -> dict[str, Any]:
        """Steps until nothing is on its way to the pool."""
        core = self._llm.llm_engine.engine_core.engine_core
        while core.scheduler.connector and core.scheduler.connector.has_pending_push_work():
            core.step_fn()
        return {}

    def reset(self) -> dict[str, Any]:
        """Empties the engine's own caches: blocks, and the host memory of the tiers."""
        if not self._llm.reset_prefix_cache(reset_connector=self._mode == "tier"):
            raise RuntimeError("vLLM did not reset its prefix cache")
        return {}

    def new_weights(self) -> dict[str, Any]:
        """What vLLM does around a change of weights, with a request and saves under way."""
        from vllm import SamplingParams

        llm = self._llm.llm_engine
        prompt = {"prompt_token_ids": [3, *range(5, 5 + 8 * BLOCK_TOKENS)]}
        llm.add_request("cut short", prompt, SamplingParams(max_tokens=50, detokenize=False))
        llm.step()
        core = llm.engine_core.engine_core
        core.pause_scheduler("abort")
        core.resume_scheduler()
        llm.abort_request(["cut short"])  # this side of the engine was not told
        return {}

    def metrics(self) -> dict[str, Any]:
        """vLLM's counters of cached tokens."""
        return {metric.name: metric.value for metric in self._llm.get_metrics()
                if "prefix_cache" in metric.name and hasattr(metric, "value")}


def main() -> None:
    """Starts the engine and does what stdin says."""
    mode, model, *rest = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM writes to stdout, too
    engine = Engine(mode, model, *rest)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer = getattr(engine, order.pop("do"))(**order)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
