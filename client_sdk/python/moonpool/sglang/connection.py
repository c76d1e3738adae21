"""The one client that all threads of a back end share: made late, closed once.

What makes closing hard is the memory. SGLang frees a host pool when its back end is closed, and
reuses its pages before that, so nothing may write there afterwards on behalf of an older call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moonpool import CancelSource


class Connection:
    """Makes the client when it is first needed; `close` ends the calls that run. Thread-safe.

    client = connection.client(seconds)
    with connection.use() as is_open:
        if is_open:
            client.get_into_many(keys, targets, timeout=seconds, cancel=connection.cancel)
    """

    def __init__(self, connect: Callable[[float], Any]) -> None:
        """`connect(timeout)` makes the moonpool.Client, or raises."""
        self.cancel = CancelSource()  # for every call
        self._connect = connect
        self._connecting = threading.Lock()  # held while a client is made; taken before _changed
        self._changed = threading.Condition()  # guards what follows
        self._client: Any = None
        self._closed = False
        self._users = 0

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_made(self) -> bool:
        """Is there a client?"""
        return self._client is not None

    @property
    def is_in_use(self) -> bool:
        """Is anybody inside of `use`?"""
        return self._users > 0

    def client(self, seconds: float) -> Any:
        """The client. Raises TimeoutError, ConnectionError (closed), and what `connect` raises.

        While one thread makes it the others wait. When that fails, each of them tries again.
        """
        if (known := self._client) is not None:
            return known
        if not self._connecting.acquire(timeout=seconds):
            raise TimeoutError("another thread is still connecting")
        try:
            with self._changed:
                if self._closed:
                    raise ConnectionError("closed")
                if self._client is not None:
                    return self._client
            made = self._connect(seconds)  # not under the lock that `close` takes
            with self._changed:
                if not self._closed:
                    self._client = made
                    return made
        finally:
            self._connecting.release()
        made.close()
        raise ConnectionError("closed while it connected")

    @contextmanager
    def use(self) -> Iterator[bool]:
        """Around all that touches the host pool's memory; False: closed, touch nothing."""
        with self._changed:
            is_open = not self._closed
            self._users += is_open
        try:
            yield is_open
        finally:
            if is_open:
                with self._changed:
                    self._users -= 1
                    self._changed.notify_all()

    def close(self, seconds: float) -> bool:
        """Cancels the calls that run, waits for them, and closes the client. Idempotent.

        True: nobody uses the connection any more; False: somebody still did after `seconds`.
        Does not wait for a client that is being made: who makes it closes it.
        """
        with self._changed:
            self._closed = True
            client, self._client = self._client, None
        self.cancel.cancel()
        with self._changed:
            is_unused = self._changed.wait_for(lambda: self._users == 0, seconds)
        if client is not None:
            client.close()
        return is_unused
