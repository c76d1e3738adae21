"""What tests of moonpool.vllm share: a pool with a fake client, and workers that run by hand."""

from __future__ import annotations

from collections.abc import Callable

import moonpool
from fake_client import FakePool
from moonpool.vllm.options import Options
from moonpool.vllm.pool import Pool

OPTIONS = Options.parse({"masters": "nowhere:1"})
DOWN = moonpool.Unavailable("no master", code="UNAVAILABLE")


class AtOnce:
    """Workers whose tasks run when they are submitted, or by hand."""

    def __init__(self, *, by_hand: bool = False) -> None:
        self.by_hand = by_hand
        self.tasks: list[Callable[[], None]] = []

    def submit(self, task: Callable[[], None], *, urgent: bool = False) -> bool:
        if self.by_hand:
            self.tasks.append(task)
        else:
            task()
        return True

    def run(self) -> None:
        """Runs what was submitted."""
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task()

    def close(self) -> None:
        """Nothing."""


class Bench:
    """A pool with a fake client, a clock that stands still, and the lines it logged."""

    def __init__(self) -> None:
        self.fake = FakePool()
        self.now = 100.0
        self.lines: list[str] = []
        self.pool = Pool(self.fake.connect, OPTIONS, log=self.lines.append,
                         clock=lambda: self.now)
