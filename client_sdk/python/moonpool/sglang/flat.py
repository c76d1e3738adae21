"""Pages as tensors: SGLang's generic interface, which copies every page (no ``interface_v1``).

A key is a page hash, or ``<hash>.<pool>`` for what is not KV (a draft's). Methods may raise;
storage.py sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from moonpool.sglang.pages import bytes_of
from moonpool.sglang.shelves import KV, Shelves
from moonpool.sglang.traffic import Traffic


class FlatPages:
    def __init__(self, shelves: Shelves, traffic: Traffic, kv_pool: Any, is_mla: bool) -> None:
        """`kv_pool`: the host pool whose pages the tensors are."""
        self._shelves = shelves
        self._traffic = traffic
        self._kv_pool = kv_pool
        self._is_mla = is_mla

    def get(self, keys: Sequence[str], tensors: Sequence[Any]) -> list[torch.Tensor | None]:
        """Fills the tensors (contiguous, on the CPU); None stands for each that was missed."""
        if not keys:
            return []
        targets = [_target(tensor) for tensor in tensors]
        done = self._traffic.read(
            self._objects(keys),
            targets,
            [target.numel() for target in targets],
            self._traffic.io.read_deadline(),
        )
        return [tensor if ok else None for tensor, ok in zip(tensors, done)]

    def set(self, keys: Sequence[str], values: Sequence[torch.Tensor]) -> bool:
        """Are the bytes of all values (on the CPU) stored? See PoolIo.write."""
        if self._is_mla and not self._shelves.is_writer:
            # Without the KV pages, which another rank stores for all.
            own = [(key, value) for key, value in zip(keys, values) if "." in key]
            keys, values = [key for key, _ in own], [value for _, value in own]
        if not keys:
            return True
        objects = self._objects(keys)
        sources = [bytes_of(value) for value in values]
        return all(
            self._traffic.write(
                objects,
                sources,
                [source.numel() for source in sources],
                ["", *objects[:-1]],
                self._traffic.io.write_deadline(),
            )
        )

    def exists(self, key: str) -> bool:
        """Is this one page there, whichever of the two interfaces stored it?"""
        asked = self._objects([key])
        if "." not in key and KV in self._shelves:
            asked += self._shelves[KV].names.keys([key])
        flat, *paged = self._traffic.io.found(asked, self._traffic.io.query_deadline())
        return flat or (bool(paged) and all(paged))

    def _objects(self, keys: Sequence[str]) -> list[str]:
        return [self._shelves.flat_key(key, self._kv_pool) for key in keys]


def _target(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_contiguous():
        raise ValueError("the target tensor is not contiguous")
    return tensor.view(-1).view(torch.uint8)
