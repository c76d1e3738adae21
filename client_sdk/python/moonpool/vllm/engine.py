"""Facts about the vLLM this runs in, which the layout of blocks depends on. Imports vLLM."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils

from .layout import config_digest

if TYPE_CHECKING:
    from vllm.config import ModelConfig, VllmConfig

ALGORITHMS = ("sha256_cbor", "sha256", "xxhash_cbor", "xxhash")

# Below "vllm", so that vLLM's own settings of logging apply.
logger = init_logger("vllm.moonpool")


def warn(line: str) -> None:
    """The log of what a person should know, as `Pool` takes it."""
    logger.warning("%s", line)


def root_is_known(algorithm: str) -> bool:
    """Whether each process starts its block hashes from the same root for this algorithm.

    vLLM derives the root from PYTHONHASHSEED; without one it takes a constant for algorithms that
    resist collisions, and a random number for the others.
    """
    hash_of = get_hash_fn_by_name(algorithm)
    seed = kv_cache_utils.resolve_none_hash_seed(hash_of)
    return bool(seed == kv_cache_utils.resolve_none_hash_seed(hash_of))


def root_name(algorithm: str) -> str:
    """The algorithm and its root, as the layout names them: equal where hashes are."""
    if not root_is_known(algorithm):
        return f"{algorithm}:random"
    hash_of = get_hash_fn_by_name(algorithm)
    root = hash_of(kv_cache_utils.resolve_none_hash_seed(hash_of))
    return f"{algorithm}:{hashlib.sha256(root).hexdigest()[:16]}"


def algorithm_in_use() -> str:
    """Which algorithm this process hashes blocks with, by the root it made; "" before it has one.

    For code that is not told: vLLM makes the root once it has built the scheduler.
    """
    root = getattr(kv_cache_utils, "NONE_HASH", None)
    if root is None:
        return ""
    seed = kv_cache_utils.get_none_hash_seed()
    for name in ALGORITHMS:
        try:
            if get_hash_fn_by_name(name)(seed) == root:
                return name
        except ModuleNotFoundError:  # xxhash is optional
            continue
    return "an unknown algorithm"


def device_name() -> str:
    """What of the device decides on the inside of a block.

    On CPUs the attention kernels order it for the instructions they use, which the layout's name
    does not tell.
    """
    if current_platform.device_type != "cpu":
        return str(current_platform.device_type)
    arch = current_platform.get_cpu_architecture().name.lower()
    amx, avx512 = torch.cpu._is_amx_tile_supported(), torch.cpu._is_avx512_supported()
    return f"cpu-{arch}{'-amx' if amx else ''}{'-avx512' if avx512 else ''}"


def model_fields(config: VllmConfig) -> dict[str, object]:
    """What of the model, and of how it is run, decides on the bytes of a block."""
    model = config.model_config
    return {
        "revision": getattr(model.hf_config, "_commit_hash", None) or model.revision,
        "model_dtype": model.dtype,
        "quantization": model.quantization,
        "max_model_len": model.max_model_len,  # some rotary embeddings have other factors beyond
        "config": _digest_of(model),  # with what --hf-overrides makes of it
    }


def draft_name(config: VllmConfig) -> str:
    """The model that drafts for this one, whose layers may have blocks, too; "" without one."""
    speculative = config.speculative_config
    if speculative is None:
        return ""
    draft = speculative.draft_model_config
    return f"{speculative.method}:{_digest_of(draft) if draft is not None else ''}"


def _digest_of(model: ModelConfig) -> str:
    return config_digest(model.hf_config.to_dict(), model.hf_text_config.to_dict())


def parallel_fields(parallel: Any) -> dict[str, object]:
    """How the model is split, from either vLLM's or the offloading's parallel configuration."""

    def size(*names: str) -> int:
        return int(next((getattr(parallel, n) for n in names if hasattr(parallel, n)), 1))

    return {
        "tp": size("tensor_parallel_size", "tp_size"),
        "pp": size("pipeline_parallel_size", "pp_size"),
        "pcp": size("prefill_context_parallel_size", "pcp_size"),
        "dcp": size("decode_context_parallel_size", "dcp_size"),
        "world": size("world_size"),
    }
