"""vLLM's own configuration and types for a tiny model, without an engine. Imports vLLM."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

BLOCK_TOKENS, HEADS, HEAD_SIZE = 32, 2, 32
CONFIG = """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
"num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 512,
"torch_dtype": "bfloat16"}"""


@contextmanager
def model_folder() -> Iterator[str]:
    """A folder with the model's configuration, and no weights."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(CONFIG)
        yield folder


def config_of(
    folder: str,
    algorithm: str = "sha256_cbor",
    policy: str = "recompute",
    arguments: Mapping[str, Any] = {},
    **options: Any,
) -> Any:
    """vLLM's configuration with a MoonpoolConnector of these options, as its command line makes it.

    arguments: more of the command line's.
    """
    return EngineArgs(
        model=folder,
        skip_tokenizer_init=True,
        block_size=BLOCK_TOKENS,
        prefix_caching_hash_algo=algorithm,
        kv_transfer_config={
            "kv_connector": "MoonpoolConnector",
            "kv_connector_module_path": "moonpool.vllm.connector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": policy,
            "kv_connector_extra_config": {"masters": "127.0.0.1:1", **options},
        },
        **arguments,
    ).create_engine_config()


def group(spec: Any, *layers: str) -> Any:
    """A cache group of vLLM."""
    return KVCacheGroupSpec(list(layers), spec)


def full(**changes: Any) -> Any:
    """A layer that attends to the whole prompt."""
    return FullAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=HEADS, head_size=HEAD_SIZE,
                             dtype=torch.bfloat16, **changes)


def cache_of(*groups: Any, blocks: int = 8) -> Any:
    """What vLLM tells of the KV cache."""
    return KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=list(groups),
                         kv_cache_layout="LBHNC")
