"""What the tests of moonpool.sglang share: SGLang's own host pools on the CPU, and a local pool.

The host pools are SGLang's real classes. Without a GPU their device side is a set of CPU tensors
that nobody transfers from; only what lies in host memory is stored and read here.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import unittest
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/harness"))

from pool import Master, Node, Pool  # noqa: E402

PAGE_TOKENS = 4
LAYERS = 3
DEVICE_TOKENS = 64


def require_engine() -> None:
    """Ends the program with 77 and a loud line where SGLang or the package moonpool is missing.

    The package is taken from PYTHONPATH, else from build/dev.
    """
    if importlib.util.find_spec("moonpool") is None:
        sys.path.insert(0, str(ROOT / "build/dev/python"))
    missing = {"sglang": "run this with the Python of an SGLang installation",
               "moonpool": "build the target moonpool_python, or set PYTHONPATH"}
    for module, advice in missing.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"SKIPPED, NOTHING WAS TESTED: no {module} ({error}); {advice}", file=sys.stderr)
            sys.exit(77)


def breakable_pool(case: unittest.TestCase, nodes: int = 1) -> tuple[Master, list[Node]]:
    """A pool whose processes can be killed one by one; what is left of it goes with the test.

    Not a `Pool`: that one is stopped as a whole when one of its processes ends.
    """
    master = case.enterContext(Master())
    return master, [
        case.enterContext(Node(master.address, f"node-{i}", "64MiB")) for i in range(nodes)
    ]


class WithPool(unittest.TestCase):
    """One pool for the tests of a class; each test has a `tag`, and so a namespace, of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = cls.enterClassContext(Pool(dram="64MiB"))

    def storage(self, host_pool: Any, *, attach: bool = True, **changes: Any) -> Any:
        """The back end as SGLang makes it; `changes` are those of `config`."""
        from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

        extra = {"tag": self.id()} | changes.pop("extra", {})
        settings = config(self.pool.master, extra=extra, **changes)
        storage = StorageBackendFactory.create_backend("dynamic", settings, host_pool)
        self.addCleanup(storage.close)
        if attach:
            storage.register_mem_pool_host(host_pool)
        return storage


def config(master: str = "127.0.0.1:1", *, mla: bool = False, **changes: Any) -> Any:
    """SGLang's HiCacheStorageConfig of rank 0 of 1; `extra` goes into its extra config."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig

    extra = {
        "backend_name": "moonpool",
        "module_path": "moonpool.sglang",
        "class_name": "MoonpoolHiCacheStorage",
        "interface_v1": 1,
        "masters": master,
        "model": "some-model",  # there is no server to be asked
        "revision": "r1",
    } | changes.pop("extra", {})
    values = {
        "tp_rank": 0,
        "tp_size": 1,
        "pp_rank": 0,
        "pp_size": 1,
        "attn_cp_rank": 0,
        "attn_cp_size": 1,
        "is_mla_model": mla,
        "enable_storage_metrics": True,
        "is_page_first_layout": False,
        "model_name": "org/some-model",
        "extra_config": extra,
    }
    return HiCacheStorageConfig(**(values | changes))


def mha_pool(
    layout: str,
    *,
    heads: int = 2,
    head_dim: int = 8,
    layers: int = LAYERS,
    dtype: Any = None,
    page: int = PAGE_TOKENS,
    tokens: int = 128,
) -> Any:
    """SGLang's MHATokenToKVPoolHost for `tokens`, with random contents."""
    import torch
    from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo
    from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost

    dtype = dtype or torch.bfloat16
    k, v = (
        tuple(torch.zeros(DEVICE_TOKENS, heads, head_dim, dtype=dtype) for _ in range(layers))
        for _ in range(2)
    )
    info = MHABufferInfo(
        buffers=KVBuffers(
            k=k, v=v, k_data_ptrs=_addresses(k), v_data_ptrs=_addresses(v),
            layout=KVBufferLayout.NHD,
        ),
        page_size=page,
        head_num=heads,
        head_dim=head_dim,
        v_head_dim=head_dim,
        dtype=dtype,
        device=torch.device("cpu"),
    )
    pool = MHATokenToKVPoolHost(
        info, tokens / DEVICE_TOKENS, 0, page, layout, pin_memory=False,
        device_capacity_tokens=DEVICE_TOKENS, start_layer=0, end_layer=layers,
    )
    return _filled(pool)


def mla_pool(layout: str, *, tokens: int = 128) -> Any:
    """SGLang's MLATokenToKVPoolHost for `tokens`, with random contents."""
    import torch
    from sglang.srt.mem_cache.device_pool_info import MLABufferInfo
    from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost

    rows = tuple(torch.zeros(DEVICE_TOKENS, 1, 24, dtype=torch.bfloat16) for _ in range(LAYERS))
    info = MLABufferInfo(
        buffers=rows,
        data_ptrs=_addresses(rows),
        layer_indices=tuple(range(LAYERS)),
        device_layer_num=LAYERS,
        page_size=PAGE_TOKENS,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        kv_cache_dim=24,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    pool = MLATokenToKVPoolHost(
        info, tokens / DEVICE_TOKENS, 0, PAGE_TOKENS, layout, pin_memory=False,
        device_capacity_tokens=DEVICE_TOKENS, start_layer=0, end_layer=LAYERS,
        target_layer_num=LAYERS,
    )
    return _filled(pool)


def mamba_pool(*, side_states: bool = False) -> Any:
    """SGLang's MambaPoolHost, one state a page; with side states its pages have no addresses."""
    import torch
    from sglang.srt.mem_cache.device_pool_info import MambaStateBufferInfo
    from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost

    info = MambaStateBufferInfo(
        temporal=torch.zeros(2, 8, 4, 3),
        conv=(torch.zeros(2, 8, 6, dtype=torch.bfloat16),),
        extra_checkpoint_buffers=(torch.zeros(8, 5),) if side_states else (),
    )
    pool = MambaPoolHost(info, 2.0, 0, device_capacity=8, pin_memory=False, layout="page_first")
    for buffer in (pool.temporal_buffer, *pool.conv_buffer, *pool.slot_state_buffers):
        buffer.copy_(torch.randn(buffer.shape))
    return pool


def _addresses(tensors: Any) -> Any:
    import torch

    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)


def _filled(pool: Any) -> Any:
    import torch

    as_bytes = pool.kv_buffer.view(-1).view(torch.uint8)
    as_bytes.copy_(torch.randint(0, 256, as_bytes.shape, dtype=torch.uint8))
    return pool


def hashes(count: int, chain: str = "a") -> list[str]:
    """Page hashes as SGLang makes them: SHA-256, in hex."""
    import hashlib

    return [hashlib.sha256(f"{chain}{i}".encode()).hexdigest() for i in range(count)]


def page_bytes(pool: Any, indices: Any) -> list[bytes]:
    """The bytes of each page, by SGLang's own reading of its layout."""
    import torch

    page = pool.page_size
    return [
        pool.get_data_page(int(start), flat=True).view(torch.uint8).numpy().tobytes()
        for start in indices[::page]
    ]


def pages(pool: Any, count: int) -> Any:
    """Indices of `count` pages of the host pool, as SGLang allocates them."""
    return pool.alloc(count * pool.page_size)
