"""The client that LMCache's native_plugin adapter wants: checked options, and a log of failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from moonpool import _native
from moonpool._client import _masters_of
from moonpool._errors import InvalidArgument
from moonpool._layout import fingerprint as fingerprint_of

_log = logging.getLogger("moonpool.lmcache")


def _fingerprint_text(layout: str | Mapping[str, object]) -> str:
    text = layout if isinstance(layout, str) else fingerprint_of(**layout)
    if text:
        return text
    raise InvalidArgument(
        "fingerprint is empty", code="INVALID_ARGUMENT", reason="BAD_ARGUMENT",
        hint='name what makes chunks unlike: {"dtype": "bfloat16", "chunk_size": 256}')


class FailureLog:
    """Says once what goes wrong, and once that it is over: LMCache shows no reasons itself."""

    def __init__(self, log: Callable[..., None] = _log.warning) -> None:
        self._log = log
        self._last = ""
        self._count = 0

    def note(self, error: str) -> None:
        """Of one batch; "" when it went well."""
        if error:
            self._count += 1
            if not self._last:
                self._log("batches fail; the first: %s", error)
            self._last = error
        elif self._last:
            self._log("batches go well again, after %d that failed; the last: %s", self._count,
                      self._last)
            self._last, self._count = "", 0


class Connector:
    """Batches of chunks, stored and loaded without waiting.

    Made by LMCache with the ``adapter_params`` of its configuration. Threads: all methods but
    ``drain_completions`` on any, at once; that one on one thread. None of them waits, ``close``
    aside. Loads and lookups never wait behind stores.

    Buffers: those of a batch are lent from when it is submitted until ``drain_completions`` has
    returned its number; after ``close`` none is touched.

    Keys go to the pool as LMCache gives them, in a namespace of their own.
    """

    def __init__(
        self,
        *,
        fingerprint: str | Mapping[str, object],
        masters: str | Sequence[str] | None = None,
        namespace: str = "lmcache",
        path: str = "auto",
        verify: bool = True,
        store_timeout: float = 10.0,
        load_timeout: float = 5.0,
        wait_for_master: bool = False,
        wait_for_space: bool = False,
        replicas: int = 1,
        threads: int = 4,
        queue: int = 256,
        tcp_streams: int = 2,
    ) -> None:
        """Reaches the master and opens the namespace; raises when that cannot be done.

        Args:
            fingerprint: What makes bytes of one engine wrong for another and is not in LMCache's
                keys (which have model, rank, group and the chunk's hash): dtype, chunk size,
                layout. A mapping, or a text. The namespace is made with it, and refused if it has
                another.
            masters: As of ``moonpool.Client``; None: the environment's MOONPOOL_MASTER.
            namespace: Keys of two namespaces have nothing to do with each other.
            path, verify, tcp_streams: As of ``moonpool.Client``.
            store_timeout: Seconds for a batch of stores or deletions, its time in the queue too.
            load_timeout: The same for lookups and loads.
            wait_for_master: Sit out an outage of the masters until the timeout. False: batches fail
                after about a second, and LMCache computes.
            wait_for_space: Stores wait for room instead of failing at once when nothing may be
                evicted.
            replicas: On different nodes.
            threads: For stores, and as many for lookups and loads.
            queue: Batches that may wait for a thread; one more completes at once as failed.
        """
        self._failures = FailureLog()
        self._native = _native.Connector(
            masters=_masters_of(masters), namespace=namespace,
            fingerprint=_fingerprint_text(fingerprint), path=path, verify=verify,
            store_timeout=store_timeout, load_timeout=load_timeout,
            wait_for_master=wait_for_master, tcp_streams=tcp_streams, threads=threads, queue=queue,
            replicas=replicas, wait_for_space=wait_for_space,
            on_warning=lambda line: _log.warning("%s", line))
        # Called per batch, with nothing of Python in between.
        self.submit_batch_set = self._native.submit_batch_set
        self.submit_batch_get = self._native.submit_batch_get
        self.submit_batch_exists = self._native.submit_batch_exists
        self.submit_batch_delete = self._native.submit_batch_delete

    def event_fd(self) -> int:
        """Readable while there are batches to drain; open until the connector is gone."""
        return self._native.event_fd()

    def drain_completions(self) -> list[tuple[int, bool, str, list[bool]]]:
        """(number, ok, error, one result for each key) of the batches that are done.

        A store's result is True where the pool has the chunk now, a load's where the buffer was
        filled to its end with verified bytes, a lookup's where the chunk can be read, a deletion's
        where it is gone. ``ok`` of a store is True when all of it is stored.
        """
        completions = self._native.drain_completions()
        for _, _, error, _ in completions:
            self._failures.note(error)
        return completions

    def stats(self) -> dict[str, int]:
        """Counts since the start: gets, hits, misses, get_bytes, puts, put_bytes,
        checksum_failures; zeros once it is closed."""
        return self._native.stats()

    def close(self) -> None:
        """Cancels what is under way and waits until nothing touches a buffer. Idempotent."""
        self._native.close()
