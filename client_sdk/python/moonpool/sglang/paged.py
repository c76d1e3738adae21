"""Pages by their indices in host pools: SGLang's v1 (KV) and v2 (all pools of a hybrid model).

Knows SGLang's PoolTransfer by its attributes. Methods may raise; storage.py sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moonpool.sglang.shelves import KV, Shelves
from moonpool.sglang.traffic import Traffic


class PagedPools:
    def __init__(self, shelves: Shelves, traffic: Traffic, kv_is_logical: bool) -> None:
        """`kv_is_logical`: the KV pool has no bytes, only indices that other pools go by."""
        self._shelves = shelves
        self._traffic = traffic
        self._kv_is_logical = kv_is_logical

    def get(self, name: str, keys: Sequence[str], indices: Any, deadline: float) -> list[bool]:
        """Reads pages into a host pool; True for those that are whole. See PoolIo.read."""
        if name == KV and self._kv_is_logical:
            return [True] * len(keys)
        shelf = self._shelves[name]
        if not keys:
            return []
        targets = shelf.pages.targets(indices, len(keys))
        objects = shelf.names.keys(keys)
        return self._traffic.read(
            objects,
            targets,
            [shelf.pages.nbytes] * len(objects),
            deadline,
            per_page=shelf.names.per_page,
            arrived=lambda good_pages: shelf.pages.arrived(targets, indices, good_pages),
        )

    def set(
        self, name: str, keys: Sequence[str], indices: Any, before: str, deadline: float
    ) -> list[bool]:
        """Stores pages from a host pool; False only for what trying again might store.

        `before`: hash of the page before the first; "" when it is unknown or there is none.
        """
        if name == KV and self._kv_is_logical:
            return [True] * len(keys)
        shelf = self._shelves[name]
        if not shelf.writes:
            return [True] * len(keys)
        if not keys:
            return []
        sources = shelf.pages.sources(indices, len(keys))
        objects = shelf.names.keys(keys)
        return self._traffic.write(
            objects,
            sources,
            [shelf.pages.nbytes] * len(objects),
            self._shelves.parents(name, keys, before),
            deadline,
            per_page=shelf.names.per_page,
        )

    def present(
        self, keys: Sequence[str], transfers: Sequence[Any], deadline: float
    ) -> dict[str, list[bool]]:
        """Per pool, per page: is it there? One question for all of them."""
        shelves = {t.name: self._shelves[t.name] for t in transfers if t.name in self._shelves}
        if not keys or not shelves:
            return {}
        objects = {name: shelf.names.keys(keys) for name, shelf in shelves.items()}
        every = [key for of_pool in objects.values() for key in of_pool]
        answers = iter(self._traffic.io.found(every, deadline))
        return {
            name: shelves[name].whole([next(answers) for _ in of_pool])
            for name, of_pool in objects.items()
        }
