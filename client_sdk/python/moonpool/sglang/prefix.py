"""How far a prefix reaches, by what is there of it. Pure; knows SGLang's PoolHitPolicy by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def leading(flags: Sequence[bool]) -> int:
    """How many are true before the first that is not."""
    return next((i for i, flag in enumerate(flags) if not flag), len(flags))


def whole(done: Sequence[bool], per_page: int) -> list[bool]:
    """Per page: are all its objects done?"""
    return [all(done[i : i + per_page]) for i in range(0, len(done), per_page)]


def restorable_ends(
    transfers: Sequence[Any], present: Mapping[str, Sequence[bool]], kv_pages: int
) -> tuple[list[int], dict[str, int]]:
    """Lengths of prefix, in pages, at which all pools have what they need; longest end of each pool.

    Up to `kv_pages`, which are there. `present`: of each pool, per page, is it there.
    """
    ends = list(range(1, kv_pages + 1))
    longest: dict[str, int] = {}
    for transfer in transfers:
        legal = legal_ends(transfer, present.get(transfer.name, []), kv_pages)
        if legal is None:
            continue
        if legal:
            longest[transfer.name] = max(legal)
        ends = [end for end in ends if end in legal]
    return ends, longest


def legal_ends(transfer: Any, present: Sequence[bool], kv_pages: int) -> set[int] | None:
    """Lengths of prefix, in pages, at which a pool has what it needs; None: it has no say.

    `transfer` (PoolTransfer) names the policy and, by the number of its keys, the window of a pool
    that only needs the end of a prefix. `present`: per page, is it there; missing ends are not.
    """
    there = list(present) + [False] * (kv_pages - len(present))
    policy = getattr(transfer.hit_policy, "value", transfer.hit_policy)
    if policy == "all_pages":
        return set(range(1, leading(there) + 1))
    if policy == "trailing_pages":
        window = max(1, len(transfer.keys or ()))
        return {end for end in range(1, kv_pages + 1) if all(there[max(0, end - window) : end])}
    return None  # block_groups never gates the hit
