"""Objects in and out of the pool: in SGLang's metrics, and remembered for `clear`.

What the interfaces have in common that SGLang reads and writes pages through (paged.py, flat.py).
Needs no SGLang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moonpool.sglang.figures import TransferFigures
from moonpool.sglang.naming import PageNames
from moonpool.sglang.prefix import leading, whole
from moonpool.sglang.recent import RecentKeys
from moonpool.sglang.transfer import PoolIo


class Traffic:
    """A page is one object or several (`PageNames.per_page`); it is there when all of them are."""

    def __init__(self, io: PoolIo, figures: TransferFigures, recent: RecentKeys) -> None:
        self.io = io
        self._figures = figures
        self._recent = recent

    def match(self, names: PageNames, hashes: Sequence[str], deadline: float) -> int:
        """Leading pages that are there; they are held for the read that follows."""
        objects = names.keys(hashes)
        found = self.io.match(objects, deadline) // names.per_page
        self._recent.add(objects[: found * names.per_page])
        return found

    def read(
        self,
        objects: Sequence[str],
        targets: Sequence[Any],
        sizes: Sequence[int],
        deadline: float,
        *,
        per_page: int = 1,
        arrived: Callable[[int], None] = lambda good_pages: None,
    ) -> list[bool]:
        """Which pages are whole. `arrived(n)` puts the first n where they belong."""
        with self._figures.prefetch() as figure:
            done = self.io.read(objects, targets, sizes, deadline)
            pages = whole(done, per_page)
            with self.io.use() as is_open:
                if not is_open:
                    return [False] * len(pages)
                arrived(leading(pages))
            figure.add(sum(pages), _moved(sizes, done))
        return pages

    def write(
        self,
        objects: Sequence[str],
        sources: Sequence[Any],
        sizes: Sequence[int],
        parents: Sequence[str],
        deadline: float,
        *,
        per_page: int = 1,
    ) -> list[bool]:
        """Which pages are stored; PoolIo.write says what True means."""
        with self._figures.backup() as figure:
            done = self.io.write(objects, sources, sizes, parents, deadline)
            pages = whole(done, per_page)
            figure.add(sum(pages), _moved(sizes, done))
        self._recent.add(key for key, ok in zip(objects, done) if ok)
        return pages


def _moved(sizes: Sequence[int], done: Sequence[bool]) -> int:
    return sum(size for size, ok in zip(sizes, done) if ok)
