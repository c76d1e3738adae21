"""A few threads and a bounded queue, in which loads go before stores. Never blocks the caller."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger("vllm.moonpool")  # as engine.logger


class Workers:
    """Runs tasks on `threads` threads; at most `queue` may wait.

    Urgent tasks go first, and one thread never takes others, so that a load does not wait for
    stores. Tasks should not raise: one that does is logged, and its thread goes on.
    """

    def __init__(self, name: str, threads: int, queue: int) -> None:
        self._queue = queue
        self._urgent: deque[Callable[[], None]] = deque()
        self._patient: deque[Callable[[], None]] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(
                target=self._work,
                args=(index > 0 or threads == 1,),
                name=f"{name}-{index}",
                daemon=True,
            )
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Callable[[], None], *, urgent: bool = False) -> bool:
        """Queues the task; False when the queue is full or closed, and the task will never run."""
        with self._ready:
            if self._closed or len(self._urgent) + len(self._patient) >= self._queue:
                return False
            (self._urgent if urgent else self._patient).append(task)
            # Only some of the threads take a patient task, and notify() may wake another.
            self._ready.notify_all()
            return True

    def close(self) -> None:
        """Runs what is queued, then ends the threads. Idempotent; blocks."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self, takes_patient: bool) -> None:
        while (task := self._next(takes_patient)) is not None:
            try:
                task()
            except Exception:  # noqa: BLE001: with its thread the engine's requests would hang
                _log.exception("moonpool: a task failed; please report this")
            del task  # with it go the buffers it refers to

    def _next(self, takes_patient: bool) -> Callable[[], None] | None:
        with self._ready:
            while True:
                if self._urgent:
                    return self._urgent.popleft()
                if self._patient and takes_patient:
                    return self._patient.popleft()
                if self._closed:
                    return None
                self._ready.wait()
