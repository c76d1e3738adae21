"""Where in memory the blocks of an engine's KV cache lie. Pure arithmetic on shapes and strides.

A KV cache is one tensor per layer whose first dimension is the block. How the rest is ordered
depends on the attention backend; a block of a layer may be one run of bytes or several, and the
layers of one block may lie side by side or far apart. `HostBlocks` turns that into a list of runs
per block, which one put or get takes as one value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


def dense_runs(sizes: Sequence[int], strides: Sequence[int], item: int) -> list[tuple[int, int]]:
    """The byte runs (offset, length) of an array, in the order of their addresses.

    sizes and strides count elements of `item` bytes; strides are not negative, and no two elements
    share memory.
    """
    dims = sorted((stride, size) for size, stride in zip(sizes, strides) if size != 1)
    run = 1
    while dims and dims[0][0] == run:
        run *= dims.pop(0)[1]
    steps = [[index * stride for index in range(size)] for stride, size in reversed(dims)]
    return [(sum(offsets) * item, run * item) for offsets in itertools.product(*steps)]


@dataclass(frozen=True)
class Layer:
    """One layer's tensor: block `b` is `runs`, each moved by address + b * block_stride bytes."""

    address: int
    block_stride: int
    runs: tuple[tuple[int, int], ...]
    owner: Any = None  # keeps the memory alive


class HostBlocks:
    """The blocks of all layers, in host memory.

    memory_at(address, nbytes, owner) makes the buffer object of a run. Taking a part of the result
    of pieces() makes its buffers; none of them outlives the part's use.
    """

    def __init__(
        self, layers: Sequence[Layer], memory_at: Callable[[int, int, Any], Any]
    ) -> None:
        self._memory_at = memory_at
        # (address in block 0, bytes, block stride, owner), neighbours that move together joined
        self._runs: list[tuple[int, int, int, Any]] = []
        for layer in layers:
            for offset, length in layer.runs:
                self._append(layer.address + offset, length, layer.block_stride, layer.owner)
        self.block_bytes = sum(run[1] for run in self._runs)

    @property
    def pieces_per_block(self) -> int:
        """Runs of one block; 1 when all layers of a block lie side by side."""
        return len(self._runs)

    def pieces(self, blocks: Sequence[int]) -> BlockPieces:
        """The buffers of each block, made when they are asked for."""
        return BlockPieces(self, list(blocks))

    def buffers(self, block: int) -> list[Any]:
        """The buffers of one block, in the order in which they make up the object."""
        return [self._memory_at(address + block * stride, length, owner)
                for address, length, stride, owner in self._runs]

    def _append(self, address: int, length: int, stride: int, owner: Any) -> None:
        if self._runs:
            last, last_length, last_stride, last_owner = self._runs[-1]
            if last + last_length == address and last_stride == stride:
                self._runs[-1] = (last, last_length + length, stride, last_owner)
                return
        self._runs.append((address, length, stride, owner))


class BlockPieces:
    """Blocks' buffers, which are made when a part is taken: on the thread that moves it.

    No sequence of its own, so that nothing of it runs within a call that got it: a slice is a list.
    """

    def __init__(self, blocks: HostBlocks, ids: Sequence[int]) -> None:
        self._blocks = blocks
        self._ids = ids

    def __getitem__(self, part: slice) -> list[list[Any]]:
        return [self._blocks.buffers(block) for block in self._ids[part]]
