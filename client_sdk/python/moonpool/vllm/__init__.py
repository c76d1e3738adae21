"""Moonpool below vLLM: two ways for engines to share the KV cache of common prefixes.

`moonpool.vllm.tier` is a secondary tier of vLLM's tiered offloading: blocks go from the GPU to
host memory (vLLM's part) and from there to the pool. For GPUs, and for hybrid models.

`moonpool.vllm.connector` is a KV connector of its own: blocks go straight from the engine's KV
cache to the pool. For KV caches in host memory (vLLM on CPUs).

Both put a block under the hash that vLLM gives it, so that any engine with the same model, layout
and hash algorithm finds it: see `moonpool.vllm.layout`. Neither ever raises into the engine because
of the pool: what cannot be had is a miss, and the engine computes it. docs/VLLM.md is the manual.

Only `tier`, `connector`, `engine` and `plugin` import vLLM; the rest is plain logic.
"""
