"""Facts about the vLLM this runs in, which the layout of blocks depends on. Imports vLLM."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

import torch
from vllm import envs
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils

from .._layout import weights_of
from .layout import config_digest

if TYPE_CHECKING:
    from vllm.config import ModelConfig, VllmConfig

    from .options import Options

ALGORITHMS = ("sha256_cbor", "sha256", "xxhash_cbor", "xxhash")

# Of vLLM's CacheConfig: how much is kept, how hits are found. How blocks are hashed and laid out
# has fields of its own. All else may decide on bytes, what a later vLLM adds included.
_NOT_OF_BYTES = frozenset({
    "gpu_memory_utilization", "num_gpu_blocks_override", "num_gpu_blocks", "num_cpu_blocks",
    "kv_cache_memory_bytes", "kv_cache_size_tokens", "kv_cache_max_concurrency",
    "kv_offloading_size", "kv_offloading_backend", "enable_prefix_caching",
    "prefix_caching_hash_algo", "prefix_match_unit", "hash_block_size",
    "cache_hit_alignment_tokens", "prefix_cache_retention_interval",
    "enable_mamba_shared_prefix_checkpoint", "effective_attention_block_size",
    "user_specified_block_size", "kv_cache_layout"})

# Below "vllm", so that vLLM's own settings of logging apply.
logger = init_logger("vllm.moonpool")


def warn(line: str) -> None:
    """The log of what a person should know, as `Pool` takes it."""
    logger.warning("%s", line)


def log_answer(options: Options) -> None:
    """What the log has at start when a master answers."""
    logger.info("moonpool: the pool at %s answers", ",".join(options.masters))


def root_is_known(algorithm: str) -> bool:
    """Whether each process starts its block hashes from the same root for this algorithm.

    vLLM derives the root from PYTHONHASHSEED; without one it takes a constant for algorithms that
    resist collisions, and a random number for the others.
    """
    try:
        hash_of = get_hash_fn_by_name(algorithm)
    except (ValueError, ModuleNotFoundError):  # not one of vLLM's, or without its package
        return False
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
    does not tell. AMD's GPUs are of type "cuda", too; some of them have another kind of fp8, and
    kernels that order a block in their own way.
    """
    if current_platform.device_type != "cpu":
        fp8 = str(current_platform.fp8_dtype()).removeprefix("torch.")
        shuffled = "-shuffled" if envs.VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT else ""
        return f"{current_platform.device_name}-{fp8}{shuffled}"
    arch = current_platform.get_cpu_architecture().name.lower()
    amx, avx512 = torch.cpu._is_amx_tile_supported(), torch.cpu._is_avx512_supported()
    return f"cpu-{arch}{'-amx' if amx else ''}{'-avx512' if avx512 else ''}"


def model_fields(config: VllmConfig, options: Options) -> dict[str, object]:
    """What of the model, and of how it is run, decides on the bytes of a block.

    Raises ValueError when nobody says which weights they are.
    """
    model = config.model_config
    weights = options.revision or weights_name(model)
    if not weights:
        raise ValueError(f'moonpool: set "revision": nobody tells which weights {model.model} has, '
                         "and blocks of other weights would be taken for theirs")
    return {
        "model": options.model or source_of(model),
        "revision": weights,
        "model_dtype": model.dtype,
        "quantization": model.quantization,
        "max_model_len": model.max_model_len,  # some rotary embeddings have other factors beyond
        "load_format": config.load_config.load_format,  # "dummy" weights are others
        "config": _digest_of(model),  # with what --hf-overrides makes of it
        "settings": settings_digest(config),
        "draft": draft_name(config),
        "interleave": _interleave_of(config),
    }


def weights_name(model: ModelConfig) -> str:
    """Which weights a model has: a commit of the hub, what vLLM's --revision says, or what lies in
    its folder; "" when nobody tells."""
    commit = getattr(model.hf_config, "_commit_hash", None) if not model.model_weights else None
    return str(commit or model.revision or weights_of(source_of(model)))


def source_of(model: ModelConfig) -> str:
    """Where the weights are: a name of the hub, a path, or the address of an object store (of which
    vLLM fetches the configuration, and takes that for the model's path)."""
    return str(model.model_weights or model.model)


def settings_digest(config: VllmConfig) -> str:
    """16 hex digits of vLLM's settings that decide on bytes: which layers of the cache are
    quantized, of which type the states of Mamba are, which kernels write blocks.

    All of them, since the scheduler knows the layout of one layer of each group only.
    """
    quantization = {"quantization": config.model_config.quantization_config}
    parts = (config.cache_config, config.attention_config, config.mamba_config)
    return config_digest(quantization, *(
        {field.name: getattr(part, field.name) for field in dataclasses.fields(part)
         if field.name not in _NOT_OF_BYTES} for part in parts))


def draft_name(config: VllmConfig) -> str:
    """The model that drafts for this one, whose layers may have blocks, too; "" without one."""
    speculative = config.speculative_config
    if speculative is None:
        return ""
    draft = speculative.draft_model_config
    if draft is None:
        return str(speculative.method)
    return f"{speculative.method}:{_digest_of(draft)}:{weights_name(draft) or source_of(draft)}"


def _digest_of(model: ModelConfig) -> str:
    return config_digest(model.hf_config.to_dict(), model.hf_text_config.to_dict())


def _interleave_of(config: VllmConfig) -> str:
    """Which tokens of a block are whose, with decode context parallelism. vLLM settles that in its
    workers: by the older option where it is set, and with NIXL perhaps by the size of a block."""
    parallel, transfer = config.parallel_config, config.kv_transfer_config
    if parallel.decode_context_parallel_size == 1:
        return ""
    nixl = transfer is not None and transfer.has_connector("NixlConnector")
    return (f"{parallel.cp_kv_cache_interleave_size},{parallel.dcp_kv_cache_interleave_size}"
            f"{',nixl' if nixl else ''}")


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
