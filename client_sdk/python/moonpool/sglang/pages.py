"""Where a host pool keeps its pages: from SGLang's indices to memory that can be read and written.

Most host pools say at which addresses the pieces of a page are (`get_page_buffer_meta`); then bytes
go between the pool and those addresses, without a copy here. The others only hand out whole pages
as tensors (`get_data_page`, `set_from_flat_data_page`); then each page is copied once. An object is
the concatenation of its pieces in the order in which the host pool names them, so an object that
was written in one of the two ways is not readable in the other: `shape_of` tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

# What moonpool takes as a value or a target: buffers, in order.
Pieces = Sequence[Any]


class Pages(Protocol):
    """The pages of one host pool on this rank."""

    nbytes: int  # of one object
    piece_sizes: tuple[int, ...]  # of one object

    def sources(self, host_indices: Any, count: int) -> list[Pieces]:
        """What to store: one entry per object, page by page. May borrow the host pool's memory."""
        ...

    def targets(self, host_indices: Any, count: int) -> list[Pieces]:
        """Where to read to, in the order of `sources`."""
        ...

    def arrived(self, targets: list[Pieces], host_indices: Any, good_pages: int) -> None:
        """The first `good_pages` pages of `targets` have been filled."""
        ...


class AddressedPages:
    """Pages whose pieces have addresses: no copy."""

    def __init__(self, pool: Any, memory: Callable[..., Any], factor: int = 1) -> None:
        """`memory` is moonpool.Memory; `factor`: objects per page (see naming.HeadSplit)."""
        self._pool = pool
        self._memory = memory
        self._factor = factor
        sizes = self._meta(_first_page(pool))[1]
        per_object = len(sizes) // factor
        self.piece_sizes = tuple(sizes[:per_object])
        self.nbytes = sum(self.piece_sizes)

    def sources(self, host_indices: Any, count: int) -> list[Pieces]:
        pointers, sizes = self._meta(host_indices)
        objects = count * self._factor
        per_object = len(self.piece_sizes)
        if len(pointers) != objects * per_object:
            raise ValueError(
                f"{len(pointers)} pieces for {count} pages; "
                f"a page has {self._factor * per_object}, and {len(host_indices)} indices came"
            )
        memory, pool = self._memory, self._pool
        pieces = [memory(at, size, owner=pool) for at, size in zip(pointers, sizes)]
        return [pieces[i : i + per_object] for i in range(0, len(pieces), per_object)]

    targets = sources

    def arrived(self, targets: list[Pieces], host_indices: Any, good_pages: int) -> None:
        pass  # the bytes are where they belong

    def _meta(self, host_indices: Any) -> tuple[list[int], list[int]]:
        if self._factor > 1:
            return self._pool.get_split_heads_page_buffer_meta(host_indices, self._factor)
        return self._pool.get_page_buffer_meta(host_indices)


class CopiedPages:
    """Pages that are handed out whole: one copy each way."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        page = pool.get_dummy_flat_data_page()
        self.nbytes = page.numel() * page.element_size()
        self.piece_sizes = (self.nbytes,)

    def sources(self, host_indices: Any, count: int) -> list[Pieces]:
        pool = self._pool
        return [
            [bytes_of(pool.get_data_page(index, flat=True))]
            for index in self._starts(host_indices, count)
        ]

    def targets(self, host_indices: Any, count: int) -> list[Pieces]:
        self._starts(host_indices, count)
        return [[bytes_of(self._pool.get_dummy_flat_data_page())] for _ in range(count)]

    def arrived(self, targets: list[Pieces], host_indices: Any, good_pages: int) -> None:
        pool = self._pool
        starts = self._starts(host_indices, len(targets))
        dtype = pool.get_dummy_flat_data_page().dtype
        for index, pieces in zip(starts[:good_pages], targets):
            pool.set_from_flat_data_page(index, pieces[0].view(dtype))

    def _starts(self, host_indices: Any, count: int) -> list[int]:
        page = self._pool.page_size
        if len(host_indices) != count * page:
            raise ValueError(f"{len(host_indices)} indices for {count} pages of {page} tokens")
        return host_indices[::page].tolist()


def pages_of(pool: Any, memory: Callable[..., Any], factor: int = 1) -> Pages:
    """The best way to reach `pool`'s pages; ValueError says why there is none."""
    try:
        return AddressedPages(pool, memory, factor)
    except Exception as refusal:
        if factor > 1:
            raise ValueError(
                f"{type(pool).__name__} cannot cut its heads into {factor} ({refusal}); "
                "leave tp_lcm_size out of the extra config"
            ) from refusal
        try:
            return CopiedPages(pool)
        except Exception as second:
            raise ValueError(
                f"{type(pool).__name__} with layout {pool.layout!r} offers neither the addresses "
                f"of its pages ({refusal}) nor whole pages ({second}); "
                "use --hicache-mem-layout page_first"
            ) from second


def bytes_of(tensor: Any) -> Any:
    """The bytes of a contiguous CPU tensor of any element type (not all have a buffer)."""
    import torch

    return tensor.contiguous().view(-1).view(torch.uint8)


def _first_page(pool: Any) -> Any:
    import torch

    return torch.arange(pool.page_size, dtype=torch.int64)
