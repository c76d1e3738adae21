#!/usr/bin/env python3
"""Makes a small random-weight Llama model in a folder: for tests of engines. Downloads nothing.

    make_tiny_model.py FOLDER [--hidden 512] [--layers 4] [--heads 8] [--kv-heads 4]
                              [--vocab 2048] [--max-tokens 8192] [--seed 1]

The folder gets config.json, generation_config.json and model.safetensors. There is no tokenizer:
prompts are token ids, and the engine is started without one (vLLM: skip_tokenizer_init). The same
arguments give the same bytes on every machine. The adapters do not know that: they go by the times
of the files, so processes with a copy each share blocks only where all are given one "revision"
(and "model"). Needs torch and safetensors, both of which every engine's environment has.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file


def config_of(args: argparse.Namespace) -> dict[str, object]:
    """What Hugging Face's LlamaConfig reads."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": args.hidden,
        "intermediate_size": 2 * args.hidden,
        "num_hidden_layers": args.layers,
        "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads,
        "head_dim": args.hidden // args.heads,
        "vocab_size": args.vocab,
        "max_position_embeddings": args.max_tokens,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "bfloat16",
    }


def weights_of(args: argparse.Namespace) -> dict[str, torch.Tensor]:
    """Normal weights of a size that keeps activations near one, so that logits differ clearly."""
    generator = torch.Generator().manual_seed(args.seed)
    head = args.hidden // args.heads
    inner = 2 * args.hidden

    def matrix(rows: int, columns: int) -> torch.Tensor:
        values = torch.randn(rows, columns, generator=generator) * columns**-0.5
        return values.to(torch.bfloat16)

    def ones() -> torch.Tensor:
        return torch.ones(args.hidden, dtype=torch.bfloat16)

    tensors = {
        "model.embed_tokens.weight": matrix(args.vocab, args.hidden),
        "model.norm.weight": ones(),
        "lm_head.weight": 4 * matrix(args.vocab, args.hidden),
    }
    for index in range(args.layers):
        at = f"model.layers.{index}."
        tensors[at + "input_layernorm.weight"] = ones()
        tensors[at + "post_attention_layernorm.weight"] = ones()
        tensors[at + "self_attn.q_proj.weight"] = matrix(args.heads * head, args.hidden)
        tensors[at + "self_attn.k_proj.weight"] = matrix(args.kv_heads * head, args.hidden)
        tensors[at + "self_attn.v_proj.weight"] = matrix(args.kv_heads * head, args.hidden)
        tensors[at + "self_attn.o_proj.weight"] = matrix(args.hidden, args.heads * head)
        tensors[at + "mlp.gate_proj.weight"] = matrix(inner, args.hidden)
        tensors[at + "mlp.up_proj.weight"] = matrix(inner, args.hidden)
        tensors[at + "mlp.down_proj.weight"] = matrix(args.hidden, inner)
    return tensors


def main() -> None:
    """Parses the arguments and writes the folder."""
    parser = argparse.ArgumentParser(description="random-weight Llama model for tests")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "config.json").write_text(json.dumps(config_of(args), indent=2) + "\n")
    (args.folder / "generation_config.json").write_text(
        json.dumps({"bos_token_id": 0, "eos_token_id": 1}) + "\n"
    )
    save_file(weights_of(args), args.folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
