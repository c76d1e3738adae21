"""What vLLM runs in each of its processes at start: makes the tier known as type "moonpool".

The wheel names `register` as an entry point of the group `vllm.general_plugins`, and so does what
the build makes for PYTHONPATH. Without either a tier's configuration names the class itself:
`{"type": "MoonpoolTier", "module_path": "moonpool.vllm.tier"}`.
"""

from __future__ import annotations

TIER_TYPE = "moonpool"


def register() -> None:
    """Adds the tier to vLLM's table. Safe to call twice; does nothing on a vLLM without tiers."""
    try:
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
    except ImportError:  # an older vLLM, or one built without offloading
        return
    try:
        SecondaryTierFactory.register_tier(TIER_TYPE, "moonpool.vllm.tier", "MoonpoolTier")
    except ValueError:  # already there
        return
