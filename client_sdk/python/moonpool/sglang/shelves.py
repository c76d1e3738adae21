"""One shelf for each host pool: where its pages are, and what they are called.

Knows SGLang's host pools by their attributes only, and needs no SGLang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moonpool.sglang import naming
from moonpool.sglang.pages import Pages, pages_of
from moonpool.sglang.prefix import whole
from moonpool.sglang.server import DRAFT

KV = "kv"  # SGLang's PoolName.KV, which is a str
MAMBA = "mamba"


class Shelf:
    def __init__(self, pages: Pages, names: naming.PageNames, writes: bool) -> None:
        self.pages = pages
        self.names = names
        self.writes = writes  # False: another rank stores these bytes for all

    def whole(self, done: Sequence[bool]) -> list[bool]:
        """Per page: are all its objects done?"""
        return whole(done, self.names.per_page)


class Shelves:
    """The shelves of one rank, by pool name. Filled at attach; later only read."""

    def __init__(
        self,
        config: Any,
        server: dict[str, str],
        memory: Callable[..., Any],
        is_of_heads: Callable[[Any], bool],
    ) -> None:
        """`config`: HiCacheStorageConfig; `server`: see server.server_facts; `memory`:
        moonpool.Memory; `is_of_heads(pool)`: does the pool hold attention heads, cut by rank?"""
        self._config = config
        self._server = server
        self._memory = memory
        self._is_of_heads = is_of_heads
        self._shelves: dict[str, Shelf] = {}
        self._flat: dict[str, naming.PageNames] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._shelves

    def __getitem__(self, name: str) -> Shelf:
        shelf = self._shelves.get(name)
        if shelf is None:
            raise LookupError(f"pages of the pool {_text(name)!r} cannot be stored, see above")
        return shelf

    @property
    def is_writer(self) -> bool:
        """Does this rank store what all TP ranks have alike?"""
        return getattr(self._config, "is_storage_writer", self._config.tp_rank == 0)

    def add(self, pool: Any, name: str) -> None:
        """ValueError says why the pool's pages cannot be reached."""
        split = naming.HeadSplit()
        if name == KV:
            split = naming.head_split(self._config, pool.layout)
        pages = pages_of(pool, self._memory, split.factor)
        shape = naming.page_shape(pool, pages.piece_sizes, split.factor)
        shape["access"] = type(pages).__name__
        packed = getattr(pool, "target_layer_num", None) not in (
            None, getattr(pool, "layer_num", None),
        )
        if packed or name.startswith("draft"):
            shape["draft"] = self._draft()
        replicated = self._is_replicated(pool, name)
        names = naming.page_names(
            self._config,
            pool_name=_text(name),
            shape=shape,
            replicated=replicated,
            split=split,
        )
        self._shelves[name] = Shelf(pages, names, not replicated or self.is_writer)

    def _is_replicated(self, pool: Any, name: str) -> bool:
        """Do all TP ranks hold the same bytes? Said only where it is certain.

        In an MLA engine, Mamba states and pools of attention heads (an MHA draft) are still cut by
        rank. SGLang has the latter stored by rank 0 alone, so the others miss them; they would read
        rank 0's bytes otherwise.
        """
        if not self._config.is_mla_model or name == MAMBA:
            return False
        return not self._is_of_heads(pool)

    def parents(self, name: str, hashes: Sequence[str], before: str) -> list[str]:
        """Of each object of these pages: the object that it hangs on.

        A KV page hangs on the one before it in the prompt (`before`: the hash of the page before
        the first, "" when it is unknown). A page of a second pool hangs on its KV page, without
        which it is of no use.
        """
        names = self[name].names
        if name == KV or KV not in self:
            return names.parents(hashes, before)
        kv = self[KV].names
        return [kv.keys([page])[0] for page in hashes for _ in names.prefixes]

    def flat_key(self, key: str, kv_pool: Any) -> str:
        """Name in the generic interface of `key`: a page hash, or ``<hash>.<pool>`` (a draft's)."""
        page, _, pool_name = key.partition(".")
        return self.flat_names(pool_name or KV, kv_pool).keys([page])[0]

    def flat_names(self, pool_name: str, kv_pool: Any) -> naming.PageNames:
        names = self._flat.get(pool_name)
        if names is None:
            # Of a pool that is only named in a key nothing is known: never shared between ranks.
            shape = naming.page_shape(kv_pool, ())
            if pool_name != KV:
                shape["draft"] = self._draft()
            names = naming.page_names(
                self._config,
                pool_name=pool_name,
                shape=shape,
                replicated=self._config.is_mla_model and pool_name == KV,
                flat=True,
            )
            self._flat[pool_name] = names
        return names

    def _draft(self) -> list[str]:
        """A draft model's pages depend on which one it is, and on its own element type."""
        return [self._server.get(fact, "") for fact in (*DRAFT, "draft_weights")]


def _text(name: Any) -> str:
    return str(getattr(name, "value", name))
