"""Which blocks are the same bytes: the namespace, its fingerprint, and the keys. Pure.

Two engines may use each other's blocks when everything that decides on the bytes is equal: model,
revision, configuration, data type, tokens per block, memory layout, how the model is split over
ranks, vLLM's version, and how block hashes are made. All of it goes into a digest, which is part of
the namespace's name; engines that differ in any of it work in different namespaces and never meet.

A key is `<rank part>/<hex of the block hash>`: `t0p0/3f0a...` holds what tensor-parallel shard 0 of
pipeline stage 0 keeps of the block. The last segment is always the hash alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

# Algorithms whose input is serialized in a way that other processes repeat bit for bit.
PORTABLE_ALGORITHMS = ("sha256_cbor", "xxhash_cbor")
_PRIVATE_ALGORITHMS = ("sha256", "xxhash")
_MODEL_CHARS = 40  # of the model's name in the namespace's: for people, the digest tells them apart


@dataclass(frozen=True)
class Layout:
    """Everything that decides whether two engines' blocks are the same bytes.

    `fields` are names and values; all values are compared as text.
    """

    fields: Mapping[str, object]

    @property
    def digest(self) -> str:
        """16 hex digits of all fields."""
        text = json.dumps(
            {name: str(value) for name, value in self.fields.items()}, sort_keys=True
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def namespace(self, prefix: str) -> str:
        """`prefix/model.digest`, with the model's name shortened and in allowed characters."""
        model = str(self.fields.get("model", "")).rstrip("/").rsplit("/", 1)[-1]
        model = re.sub(r"[^A-Za-z0-9._-]", "-", model)[:_MODEL_CHARS]
        return f"{prefix}/{model or 'model'}.{self.digest}"

    def fingerprint_fields(self) -> dict[str, object]:
        """What the master keeps beside the name, which has room for 254 bytes with it."""
        short: dict[str, object] = {"engine": "vllm", "layout": self.digest}
        for name in ("dtype", "page_tokens"):
            if name in self.fields:
                short[name] = self.fields[name]
        return short


def config_digest(*configs: Mapping[str, object]) -> str:
    """16 hex digits of models' configurations, wherever they lie: equal where models compute alike.

    Left out is what says where a configuration came from: private names, and the library's version.
    """

    def kept(value: object) -> object:
        if isinstance(value, Mapping):
            return {str(name): kept(inner) for name, inner in value.items()
                    if not str(name).startswith("_") and name != "transformers_version"}
        return [kept(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    text = json.dumps([kept(config) for config in configs], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shard_part(tensor: int, stage: int) -> str:
    """Rank part of what one worker keeps of a block: its tensor-parallel shard, its stage."""
    return f"t{tensor}p{stage}"


def group_part(group: int) -> str:
    """Rank part of what all workers together keep of a block, for one KV cache group."""
    return f"g{group}"


def block_key(part: str, block_hash: bytes) -> str:
    """The key of a block under a rank part."""
    return f"{part}/{block_hash.hex()}"


class PrivateHashes(ValueError):
    """No other process can compute the same block hashes: nothing would ever be shared."""


def check_hashes(algorithm: str, *, root_known: bool, allow_private: bool) -> None:
    """Raises PrivateHashes unless other processes get the same hashes for the same tokens.

    algorithm: vLLM's prefix_caching_hash_algo. root_known: the hash before the first block is the
    same in all processes (by PYTHONHASHSEED, or because this vLLM fixes it for the algorithm).
    """
    if allow_private:
        return
    if algorithm not in PORTABLE_ALGORITHMS:
        what = ("hashes Python's own serialization, which differs from process to process"
                if algorithm in _PRIVATE_ALGORITHMS else "is none that is known here")
        raise PrivateHashes(
            f"moonpool: --prefix-caching-hash-algo {algorithm} {what}, so no engine would find "
            "another's blocks. Start vLLM with --prefix-caching-hash-algo sha256_cbor, or, if only "
            "this one process will ever use its blocks, set the option allow_private_hashes to "
            "true."
        )
    if not root_known:
        raise PrivateHashes(
            f"moonpool: with {algorithm} and no PYTHONHASHSEED each process starts its block "
            "hashes from a random number, so no engine would find another's blocks. Set "
            "PYTHONHASHSEED to the same value for all engines (0 will do), or use sha256_cbor; "
            "for a single process set the option allow_private_hashes to true."
        )
