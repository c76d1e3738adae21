"""The connector's half in a worker: moves blocks between the KV cache and the pool. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .blocks import HostBlocks
from .layout import block_key
from .planner import Load, Save
from .transfers import Transfers


@dataclass
class Ended:
    """What has come to an end since the last call of Mover.ended()."""

    loaded: set[str] = field(default_factory=set)  # requests; those that failed, too
    lost_blocks: set[int] = field(default_factory=set)
    lost_requests: set[str] = field(default_factory=set)
    saved: Counter[int] = field(default_factory=Counter)  # jobs


class Mover:
    """Starts one rank's loads and saves, and says when they have ended. One thread's; only
    cut_off() and close() block.

    part: this rank's part of the keys. writes: False for a rank whose blocks another one saves,
    since both hold the same bytes.
    """

    def __init__(
        self, blocks: HostBlocks, transfers: Transfers, part: str, *, writes: bool = True
    ) -> None:
        self._blocks = blocks
        self._transfers = transfers
        self._part = part
        self._writes = writes
        self._loading: dict[str, Load] = {}
        self._skipped: Counter[int] = Counter()

    def load(self, load: Load) -> None:
        """Reads blocks of the pool into blocks of the KV cache."""
        self._loading[load.request] = load
        self._transfers.load(
            load.request,
            [block_key(self._part, h) for h in load.hashes],
            self._blocks.pieces(load.blocks),
            [self._blocks.block_bytes] * len(load.blocks),
        )

    def save(self, save: Save) -> None:
        """Stores blocks of the KV cache; they must be whole, and stay as they are until it ends."""
        if not self._writes:
            self._skipped[save.job] += 1
            return
        keys = [block_key(self._part, h) for h in save.hashes]
        first = block_key(self._part, save.parent) if save.parent else ""
        self._transfers.store(
            save.job,
            keys,
            self._blocks.pieces(save.blocks),
            [first, *keys[:-1]],
            [self._blocks.block_bytes] * len(save.blocks),
        )

    def ended(self) -> Ended:
        """What has ended since the last call."""
        ended = Ended(saved=self._skipped)
        self._skipped = Counter()
        for done in self._transfers.finished():
            if not done.load:
                ended.saved[done.tag] += 1
                continue
            load = self._loading.pop(done.tag)
            ended.loaded.add(load.request)
            lost = {block for block, ok in zip(load.blocks, done.ok) if not ok}
            if lost:
                ended.lost_blocks |= lost
                ended.lost_requests.add(load.request)
        return ended

    def cut_off(self) -> None:
        """Ends all loads and saves, so that nothing reads or writes blocks. Blocks, shortly."""
        self._transfers.cut_off()
        self._transfers.drain()

    def close(self) -> None:
        """Cuts off what is under way."""
        self._transfers.close()
