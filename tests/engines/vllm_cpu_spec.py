"""vLLM's tiered offloading on a machine without a GPU: for tests of the tier.

vLLM's own TieringOffloadingSpec copies blocks between GPU and host memory on CUDA streams, and
refuses to start elsewhere. This one copies them with the CPU, at once; everything else, the manager
of the tiers and the tiers themselves, is vLLM's own. Name it in kv_connector_extra_config:

    {"spec_name": "CpuTieringSpec", "spec_module_path": "vllm_cpu_spec", ...}
"""

from __future__ import annotations

import torch
from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    OffloadingWorker,
    TransferResult,
)
from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec


class CpuTieringSpec(TieringOffloadingSpec):
    """TieringOffloadingSpec whose "GPU" is host memory, too. One block per chunk."""

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        """The worker's half: made once the KV cache is there."""
        if self.blocks_per_chunk != 1:
            raise ValueError("CpuTieringSpec: chunks are of one block")
        region = SharedOffloadRegion(
            engine_id=self._engine_id,
            num_chunks=self.num_chunks,
            rank=self.config.parallel.rank,
            kv_bytes_per_chunk=self.kv_bytes_per_chunk,
            cpu_page_size=self.cpu_page_size_per_worker,
        )
        return CopyingWorker(kv_caches, region)


class CopyingWorker(OffloadingWorker):
    """Copies pages on the calling thread; a job has ended when it is submitted."""

    def __init__(self, kv_caches: CanonicalKVCaches, region: SharedOffloadRegion) -> None:
        self._region = region
        pairs = []  # (page of a block, page of a chunk), for each tensor
        for tensor in kv_caches.tensors:
            rows = tensor.tensor.view(torch.int8).view(-1, tensor.page_size_bytes)
            pairs.append((rows, region.create_next_worker_view(tensor.page_size_bytes)))
        self._pairs = pairs
        self._ended: list[TransferResult] = []

    def submit_store(
        self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec
    ) -> bool:
        """KV cache to host memory."""
        return self._copy(job_id, src_spec, dst_spec, store=True)

    def submit_load(
        self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec
    ) -> bool:
        """Host memory to KV cache."""
        return self._copy(job_id, dst_spec, src_spec, store=False)

    def get_finished(self) -> list[TransferResult]:
        """The jobs since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def wait(self, job_ids: set[int]) -> None:
        """Nothing: they have ended."""

    def shutdown(self) -> None:
        """Lets go of the memory."""
        self._pairs.clear()
        self._region.cleanup()

    def _copy(
        self, job: int, blocks: GPULoadStoreSpec, chunks: LoadStoreSpec, *, store: bool
    ) -> bool:
        assert isinstance(chunks, CPULoadStoreSpec)
        at = torch.as_tensor(blocks.block_ids, dtype=torch.long)
        rows = torch.as_tensor(chunks.chunk_ids, dtype=torch.long)
        assert len(at) == len(rows)
        moved = 0
        for block_pages, chunk_pages in self._pairs:
            if store:
                chunk_pages[rows] = block_pages[at]
            else:
                block_pages[at] = chunk_pages[rows]
            moved += len(at) * block_pages.shape[1]
        self._ended.append(TransferResult(job, True, transfer_size=moved, transfer_time=1e-6))
        return True
