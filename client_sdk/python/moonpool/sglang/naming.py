"""Which bytes may be taken for which: names and fingerprints of SGLang's pages.

SGLang names a page by a hash over its tokens and all tokens before it, and nothing else: not the
model, not the type, not which half of the heads it is. Two engines that differ in any of that use
the same hashes for different bytes. So all of it is named here, in two places:

* What the whole engine has in common makes the **namespace** and its **fingerprint** (the pool
  refuses a namespace under another fingerprint): model, weights, element type, scales, tokens per
  page, memory layout, MHA or MLA, and the parallel sizes that cut a page.
* What differs from rank to rank, or from one host pool to the next, is the first part of the
  **key**: ``<rank part>/<page hash>``, the hash last. The rank part is, with dots in between:

      ``tp0of4``             whose heads these are (MHA). ``all``: every rank has the same (MLA),
                             and one writes for all. ``h2of8``: with ``tp_lcm_size``, the third of
                             eight cuts of the heads, which any TP size that divides 8 can use
      ``pp1of2``, ``cp0of2`` only where there are several: which layers, which part of a page
      ``kv``, ``mamba``, ... which of the engine's pools (SGLang's PoolName)
      ``flat``               stored through SGLang's generic interface, which orders bytes anew
      ``1f00ba5e``           8 hex digits over the shape of that pool's page on this rank

Pure: no pool is called, and SGLang is not needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

# Changes when the same facts come to mean other bytes.
FORMAT = "1"

# Attributes of a host pool that shape its pages' bytes. Those that a pool lacks are left out.
_SHAPE = (
    "dtype",
    "page_size",
    "layout",
    "start_layer",
    "end_layer",
    "layer_num",
    "target_layer_num",
    "head_num",
    "head_dim",
    "v_head_dim",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "kv_cache_dim",
    "num_mamba_layers",
    "temporal_dtype",
    "temporal_state_shape",
    "conv_dtype",
    "conv_state_shapes",
    "indexer_dtype",
    "storage_format_tag",
)


# Types of host pools that say no more than how much room a number takes.
_ONLY_ROOM = ("uint8", "int8", "float4")


@dataclasses.dataclass(frozen=True)
class HeadSplit:
    """How many objects a page of an MHA rank is cut into, and which cuts of the heads they are.

    Without ``tp_lcm_size``: one, the rank's own. With it (and layout page_head): as many as the
    rank has of `cuts`, so that engines of different TP sizes share them.
    """

    factor: int = 1  # objects per page
    cuts: int = 0  # all cuts of all ranks; 0: the rank is named instead


def head_split(config: Any, layout: str) -> HeadSplit:
    """The cuts of a rank under `config` (HiCacheStorageConfig)."""
    lcm = getattr(config, "tp_lcm_size", None)
    if not lcm or config.is_mla_model or layout != "page_head":
        return HeadSplit()
    # SGLang splits only where lcm > tp_size; at lcm == tp_size a rank's page is one such cut.
    return HeadSplit(factor=lcm // config.tp_size, cuts=lcm)


def digest(facts: Any, digits: int) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def page_shape(pool: Any, piece_sizes: Sequence[int], factor: int = 1) -> dict[str, Any]:
    """What a page of `pool` on this rank looks like, for the digest in its rank part.

    `piece_sizes`: bytes of each piece of one object, in order. `factor`: objects per page (heads
    are counted per object, so that ranks with other numbers of heads can come to the same).
    """
    shape = {
        name: str(getattr(pool, name)) for name in _SHAPE if getattr(pool, name, None) is not None
    }
    if isinstance(heads := getattr(pool, "head_num", None), int):
        shape["head_num"] = str(heads // factor)
    shape["pieces"] = list(piece_sizes)
    shape["class"] = type(pool).__name__
    return shape


@dataclasses.dataclass(frozen=True)
class PageNames:
    """Names the pages of one host pool on this rank."""

    prefixes: tuple[str, ...]  # one per object of a page, each ends with "/"

    @property
    def per_page(self) -> int:
        return len(self.prefixes)

    def keys(self, hashes: Sequence[str]) -> list[str]:
        """Of all objects of these pages: page by page, cut by cut."""
        return [prefix + page for page in hashes for prefix in self.prefixes]

    def parents(self, hashes: Sequence[str], before: str) -> list[str]:
        """Of each of `keys(hashes)`: the same cut of the page before it in the prompt.

        `before`: hash of the page before the first; "" when it is unknown or there is none.
        """
        previous = [before, *hashes[:-1]] if hashes else []
        return [prefix + page if page else "" for page in previous for prefix in self.prefixes]


def page_names(
    config: Any,
    *,
    pool_name: str,
    shape: dict[str, Any],
    replicated: bool,
    split: HeadSplit = HeadSplit(),
    flat: bool = False,
) -> PageNames:
    """Names for one pool. `replicated`: all TP ranks hold the same bytes (MLA)."""
    tail = [pool_name] + (["flat"] if flat else []) + [digest(shape, 8)]
    tail = _layers_and_part(config) + tail
    if replicated:
        owners = ["all"]
    elif split.cuts:
        first = config.tp_rank * split.factor
        owners = [f"h{first + i}of{split.cuts}" for i in range(split.factor)]
    else:
        owners = [f"tp{config.tp_rank}of{config.tp_size}"]
    return PageNames(tuple(".".join([owner, *tail]) + "/" for owner in owners))


def _layers_and_part(config: Any) -> list[str]:
    parts = []
    if config.pp_size > 1:
        parts.append(f"pp{config.pp_rank}of{config.pp_size}")
    if (cp_size := getattr(config, "attn_cp_size", 1)) > 1:
        parts.append(f"cp{config.attn_cp_rank}of{cp_size}")
    return parts


def element_type(pool: Any, kv_cache_dtype: str) -> str:
    """What the numbers in `pool` are.

    A host pool holds all formats of 8 bits and less as bytes: there its dtype says uint8, and only
    SGLang's (or the operator's) `kv_cache_dtype` tells FP8 with 4 bits of exponent from 5.
    ValueError where that is not said.
    """
    stored = str(getattr(pool, "dtype", "")).removeprefix("torch.")
    if stored and not stored.startswith(_ONLY_ROOM):
        return stored
    if kv_cache_dtype in ("", "auto"):
        raise ValueError(
            f"moonpool: the host pool's type is {stored or 'not known'}, which may hold several "
            "formats; start SGLang with --kv-cache-dtype, or set `kv_cache_dtype` in the extra "
            "config (what SGLang makes of auto is in its log: fp8_e4m3 for FP8 checkpoints)"
        )
    return kv_cache_dtype


def engine_facts(config: Any, pool: Any, options: Any, server: dict[str, str]) -> dict[str, str]:
    """Everything that the ranks of one engine have in common, and that decides about bytes.

    `server`: see server.server_facts. `options.model` replaces model_path, for hosts that have the
    same weights in other places. ValueError where the pool's element type is not known.
    """
    dtype = element_type(pool, options.kv_cache_dtype or server.get("kv_cache_dtype", ""))
    split = head_split(config, pool.layout)
    facts = {
        "format": FORMAT,
        "model": options.model or config.model_name or "",
        "path": "" if options.model else server.get("model_path", ""),
        "revision": options.revision or server.get("revision", ""),
        "quantization": server.get("quantization", ""),
        "overrides": server.get("json_model_override_args", ""),
        "weights": server.get("weights", ""),
        "scales": server.get("kv_scales", ""),
        "dtype": dtype,
        "page_tokens": str(pool.page_size),
        "layout": pool.layout,
        "kv": "mla" if config.is_mla_model else "mha",
        "pp": str(config.pp_size),
        "cp": str(getattr(config, "attn_cp_size", 1)),
        "tag": options.tag,
    }
    if dtype.startswith("fp8"):
        facts["fp8"] = server.get("native_fp8", "")
    if storage_format := getattr(pool, "storage_format_tag", None):
        facts["pages"] = str(storage_format)
    if split.cuts:
        facts["cuts"] = str(split.cuts)
    elif not config.is_mla_model:
        facts["tp"] = str(config.tp_size)
    return facts


def namespace_of(
    facts: dict[str, str], chosen: str, render: Callable[..., str]
) -> tuple[str, str]:
    """(namespace, fingerprint). `chosen`: the operator's name, "" for one made from the facts.

    `render` is moonpool.fingerprint, whose text stays different when it has to be cut.
    """
    name = chosen or f"sglang.{_slug(facts['model'])}.{digest(facts, 12)}"
    return name, render(engine="sglang", **{key: value or None for key, value in facts.items()})


def _slug(model: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", model.rstrip("/").rsplit("/", 1)[-1])[:40] or "model"
