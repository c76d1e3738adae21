"""What SGLang was started with, as far as it decides about the bytes of a page.

HiCacheStorageConfig says none of it. Asked are SGLang's resolved settings (`get_model()`,
`get_spec()`), not the arguments: they have "auto" decided where that can be, and follow a change of
weights while the server runs. What cannot be learnt is never left out in silence: two engines that
differ in it would read each other's pages.
"""

from __future__ import annotations

import hashlib
import logging
import pathlib
from typing import Any

from moonpool._layout import weights_of

logger = logging.getLogger(__name__)

_MODEL = (
    "model_path",
    "revision",
    "quantization",
    "json_model_override_args",  # RoPE scaling, for instance
    "kv_cache_dtype",
)
DRAFT = (
    "speculative_draft_model_path",
    "speculative_draft_model_revision",
    "speculative_draft_model_quantization",
    "speculative_draft_kv_cache_dtype",
)


def server_facts(options: Any) -> dict[str, str]:
    """By the names of SGLang's arguments, what is set; and what they refer to:

    ``weights``, ``draft_weights``  which files those are (not with `options.revision`, which says it)
    ``kv_scales``                   digest of the file of KV scales
    ``native_fp8``                  this platform's meaning of an FP8 format (AMD's is not NVIDIA's)

    `options` are the back end's. ValueError where SGLang tells nothing, as outside of a server, and
    `model` and `revision` do not stand for all of it; or where a file of scales cannot be read.
    """
    try:
        given, scales = _asked()
    except (ImportError, AttributeError, ValueError) as error:
        if options.model and options.revision:
            return {}
        raise ValueError(
            f"moonpool: SGLang does not say which model it runs ({error}); set `model` and "
            "`revision` in the extra config, other ones for all that changes the bytes of a page"
        ) from error
    if scales:
        given["kv_scales"] = _digest_of(scales)
    if not options.revision:
        given["weights"] = _weights(given, "model_path", "revision")
        given["draft_weights"] = _weights(
            given, "speculative_draft_model_path", "speculative_draft_model_revision"
        )
    return {name: value for name, value in given.items() if value not in ("", "{}")}


def _asked() -> tuple[dict[str, str], str]:
    """What SGLang says, and the path of its KV scales."""
    from sglang.kernels.ops.quantization.fp8_kernel import fp8_dtype
    from sglang.srt.runtime_context import get_model, get_spec

    given = {name: str(getattr(get_model(), name) or "") for name in _MODEL}
    given |= {name: str(getattr(get_spec(), name) or "") for name in DRAFT}
    given["native_fp8"] = str(fp8_dtype).removeprefix("torch.")
    return given, str(get_model().quantization_param_path or "")


def _digest_of(file: str) -> str:
    try:
        return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ValueError(f"moonpool: the KV scales cannot be read: {error}") from error


def _weights(given: dict[str, str], path_name: str, revision_name: str) -> str:
    """Which weights a path or a name on the Hugging Face hub means just now; "" without a path."""
    path, revision = given[path_name], given[revision_name]
    if not path:
        return ""
    if found := weights_of(path) or _commit(path, revision):
        return found
    if not revision:
        logger.warning(
            "moonpool: which weights %s has cannot be told; set `revision` in the extra config, and "
            "another one whenever they change", path,
        )
    return ""


def _commit(name: str, revision: str) -> str:
    """The hub's commit that this host has loaded; "" for what is not from there. No network."""
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, "config.json", revision=revision or None)
    except (ImportError, ValueError):  # not the name of a repository of the hub
        return ""
    return pathlib.Path(found).parent.name if isinstance(found, str) else ""
