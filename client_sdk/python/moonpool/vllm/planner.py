"""The connector's half in the scheduler: what to load and what to save, request by request. Pure.

For each request: ask the pool how far its chain of blocks is there (`matched`); when vLLM has
allocated blocks for that, plan the load (`allocated`); with each step plan to save the full blocks
it completes (`plan`). Saves read blocks after the step, perhaps after the request has ended; a save
holds its blocks (`pin`) until all ranks have reported it (`report`), or vLLM wants all blocks back
(`abandon`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .layout import block_key
from .lookups import MatchTable


class Request(Protocol):
    """What is used of vLLM's request."""

    request_id: str
    num_tokens: int
    num_prompt_tokens: int
    num_computed_tokens: int
    block_hashes: Sequence[bytes]


class Pins(Protocol):
    """Keeps blocks of the engine from being given to others."""

    def pin(self, blocks: Sequence[int]) -> None:
        """One more user of each block."""

    def unpin(self, blocks: Sequence[int]) -> None:
        """One user less."""


@dataclass
class Load:
    """Read these blocks before the request runs."""

    request: str
    blocks: list[int]
    hashes: list[bytes]


@dataclass
class Save:
    """Store these blocks after the step; `parent` is the hash before them, b"" at the start."""

    job: int
    blocks: list[int]
    hashes: list[bytes]
    parent: bytes


@dataclass
class Settings:
    """Constant from the start."""

    block_tokens: int
    hash_tokens: int  # per entry of Request.block_hashes; divides block_tokens
    parts: list[str]  # rank parts of all workers, all of which a hit needs
    ranks: int  # workers, each of which reports each save
    loads: bool
    saves: bool
    prompt_only: bool
    max_pinned: int  # blocks


@dataclass
class _State:
    request: Request
    first: int = 0  # block at which the last question began
    saved: int = 0  # blocks that are in the pool, or on their way
    lost: bool = False  # a load failed: compute, and ask no more


@dataclass
class _Job:
    blocks: list[int]
    ranks_left: int = field(default=1)


class Planner:
    """See the module. All methods are for the scheduler's thread, and none blocks."""

    def __init__(self, settings: Settings, matches: MatchTable, pins: Pins) -> None:
        self._is = settings
        self._matches = matches
        self._pins = pins
        self._states: dict[str, _State] = {}
        self._loads: list[Load] = []
        self._jobs: dict[int, _Job] = {}
        self._next_job = 0
        self._pinned = 0
        self._cut_off = False
        self._left = False

    @property
    def saving(self) -> bool:
        """True while saves hold blocks: the engine must go on stepping to hear of their end."""
        return bool(self._jobs)

    def matched(self, request: Request, computed: int) -> tuple[int | None, bool]:
        """Tokens after the first `computed` that can be loaded (None: ask again), and whether
        loading happens in the background."""
        state = self._state(request)
        tokens = self._is.block_tokens
        first, end = computed // tokens, self._last_block(request)
        if not self._is.loads or self._left or state.lost or computed % tokens or end <= first:
            return 0, False
        state.first = first

        def chains() -> list[list[str]]:
            hashes = self._hashes(request, first, end)
            return [[block_key(part, h) for h in hashes] for part in self._is.parts]

        found = self._matches.ask(request.request_id, first, chains)
        if found is None:
            return None, False
        return found * tokens, found > 0

    def allocated(self, request: Request, blocks: Sequence[int], tokens: int) -> None:
        """vLLM gave the request `blocks`; `tokens` after the computed ones are to be loaded."""
        state = self._state(request)
        self._matches.forget(request.request_id)  # preempted, it may ask again, and get more
        if tokens <= 0:
            return
        end = state.first + -(-tokens // self._is.block_tokens)
        self._loads.append(Load(request.request_id, list(blocks[state.first : end]),
                                self._hashes(request, state.first, end)))
        state.saved = end

    def plan(
        self, scheduled: Mapping[str, int], table_of: Callable[[str], Sequence[int] | None]
    ) -> tuple[list[Load], list[Save]]:
        """The work of the step that computes `scheduled` tokens of each request.

        table_of(request) is its block table in this step.
        """
        loads, self._loads = self._loads, []
        saves: list[Save] = []
        for name, tokens in scheduled.items():
            state = self._states.get(name)
            if state is not None and self._is.saves and not self._left:
                saves += self._save(state, tokens, table_of)
        return loads, saves

    def report(self, saved: Mapping[int, int], lost: Iterable[str]) -> None:
        """What workers have told: how many of them ended each save, and whose loads failed."""
        for job, ranks in saved.items():
            if (entry := self._jobs.get(job)) is None:
                continue
            entry.ranks_left -= ranks
            if entry.ranks_left <= 0:
                del self._jobs[job]
                self._pinned -= len(entry.blocks)
                self._pins.unpin(entry.blocks)
        for name in lost:
            if (state := self._states.get(name)) is not None:
                state.lost, state.saved = True, 0

    def abandon(self) -> None:
        """Lets go of all blocks at once, although workers may still read them: none of these may be
        written to before the workers have done what take_cut_off() says."""
        for entry in self._jobs.values():
            self._pins.unpin(entry.blocks)
        self._cut_off = self._cut_off or bool(self._jobs)
        self._jobs.clear()
        self._pinned = 0
        for state in self._states.values():
            state.saved = 0

    def take_cut_off(self) -> bool:
        """Whether workers must cut off all saves before the step that is planned now."""
        cut_off, self._cut_off = self._cut_off, False
        return cut_off

    def leave(self) -> bool:
        """From now on nothing is loaded or saved. False: so it was before."""
        before, self._left = self._left, True
        return not before

    def ended(self, name: str) -> None:
        """The request has ended; saves of its blocks go on."""
        self._states.pop(name, None)
        self._matches.forget(name)

    def _state(self, request: Request) -> _State:
        state = self._states.get(request.request_id)
        if state is None:
            state = self._states[request.request_id] = _State(request)
        return state

    def _last_block(self, request: Request) -> int:
        """End of the blocks worth loading: the last token is always computed, for its logits."""
        return min((request.num_tokens - 1) // self._is.block_tokens, self._hashed(request))

    def _hashed(self, request: Request) -> int:
        return len(request.block_hashes) // (self._is.block_tokens // self._is.hash_tokens)

    def _hashes(self, request: Request, first: int, end: int) -> list[bytes]:
        """Hashes of blocks [first, end). Each covers all tokens before it, too: of several hashes
        within a block the last one names it."""
        step = self._is.block_tokens // self._is.hash_tokens
        return [bytes(request.block_hashes[(b + 1) * step - 1]) for b in range(first, end)]

    def _save(
        self, state: _State, tokens: int, table_of: Callable[[str], Sequence[int] | None]
    ) -> list[Save]:
        request = state.request
        end = (request.num_computed_tokens + tokens) // self._is.block_tokens
        end = min(end, self._hashed(request))
        if self._is.prompt_only:
            end = min(end, request.num_prompt_tokens // self._is.block_tokens)
        # What does not fit now is offered again with the next step.
        end = min(end, state.saved + self._is.max_pinned - self._pinned)
        table = table_of(request.request_id) if end > state.saved else None
        if table is None:
            return []
        first, state.saved = state.saved, end
        blocks = list(table[first:end])
        parent = self._hashes(request, first - 1, first)[0] if first else b""
        job, self._next_job = self._next_job, self._next_job + 1
        self._jobs[job] = _Job(blocks, self._is.ranks)
        self._pinned += len(blocks)
        self._pins.pin(blocks)
        return [Save(job, blocks, self._hashes(request, first, end), parent)]


def max_pinned_blocks(num_blocks: int, part: float) -> int:
    """How many blocks saves may hold at most."""
    return max(1, int(num_blocks * part))


