"""SGLang's hierarchical cache (HiCache) on a Moonpool pool.

SGLang finds the back end by name, without a change to SGLang::

    python -m sglang.launch_server --model-path ... --enable-hierarchical-cache \\
      --hicache-mem-layout page_first --hicache-storage-backend dynamic \\
      --hicache-storage-backend-extra-config '{"backend_name": "moonpool",
        "module_path": "moonpool.sglang", "class_name": "MoonpoolHiCacheStorage",
        "interface_v1": 1, "hicache_storage_pass_prefix_keys": true,
        "masters": "pool-master:7400"}'

docs/SGLANG.md says how to install it, which options there are, how to see that it hits, and what
its messages mean. Written against SGLang 0.5.23.

Files: `storage` is what SGLang calls; `paged` and `flat` are its two interfaces, by index and by
tensor, and `traffic` is what these share; `transfer` does the I/O and never raises, over the one
`connection`; `pages` knows where a host pool keeps its pages; `naming` decides which bytes may ever
be taken for which, and `server` what SGLang was started with; `outcome` says what a pool's answer
means to SGLang. All but `storage` and a part of `server` work without SGLang, and are tested so.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MoonpoolHiCacheStorage"]


def __getattr__(name: str) -> Any:
    # Late, so that the parts which need no SGLang can be imported where there is none.
    if name != "MoonpoolHiCacheStorage":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from moonpool.sglang.storage import MoonpoolHiCacheStorage

    return MoonpoolHiCacheStorage
