"""Pages and bandwidth for SGLang's metrics (sglang:prefetch_pgs, sglang:backup_bandwidth, ...)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_KEPT_MAX = 4096  # entries, while nobody takes them


class _Figure:
    def __init__(self) -> None:
        self.pages = 0
        self.nbytes = 0

    def add(self, pages: int, nbytes: int) -> None:
        self.pages += pages
        self.nbytes += nbytes


class TransferFigures:
    """One entry per call that moved anything: pages, and GiB per second. Thread-safe."""

    def __init__(self, enabled: bool, clock: Callable[[], float]) -> None:
        self._enabled = enabled
        self._clock = clock
        self._lock = threading.Lock()
        self._prefetched: deque[tuple[int, float]] = deque(maxlen=_KEPT_MAX)
        self._backed_up: deque[tuple[int, float]] = deque(maxlen=_KEPT_MAX)

    @contextmanager
    def prefetch(self) -> Iterator[_Figure]:
        yield from self._timed(self._prefetched)

    @contextmanager
    def backup(self) -> Iterator[_Figure]:
        yield from self._timed(self._backed_up)

    def _timed(self, entries: deque[tuple[int, float]]) -> Iterator[_Figure]:
        figure = _Figure()
        began = self._clock()
        yield figure
        seconds = self._clock() - began
        if self._enabled and figure.nbytes and seconds > 0:
            with self._lock:
                entries.append((figure.pages, figure.nbytes / 2**30 / seconds))

    def take(self) -> Any:
        """sglang's StorageMetrics of all entries since the last call; None when disabled."""
        if not self._enabled:
            return None
        from sglang.srt.observability.metrics_collector import StorageMetrics

        metrics = StorageMetrics()
        with self._lock:
            for entries, pages, bandwidth in (
                (self._prefetched, metrics.prefetch_pgs, metrics.prefetch_bandwidth),
                (self._backed_up, metrics.backup_pgs, metrics.backup_bandwidth),
            ):
                pages.extend(entry[0] for entry in entries)
                bandwidth.extend(entry[1] for entry in entries)
                entries.clear()
        return metrics
