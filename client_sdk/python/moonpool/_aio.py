"""The asyncio form of the client."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moonpool._client import Client
from moonpool._errors import ResourceExhausted
from moonpool._native import CancelSource


class AsyncClient:
    """``Client`` for asyncio: the same methods and arguments, each a coroutine.

    ::

        async with moonpool.AsyncClient("127.0.0.1:7400") as pool:
            await pool.put("key", b"value")
            value = await pool.get("key")

    Calls run on ``threads`` threads of its own; up to ``queue`` more may wait for one, beyond that a
    call raises ResourceExhausted (LIMIT_REACHED). A call ends when its task is cancelled: the buffers
    it was given are not touched any more when CancelledError comes out. Use it on one event loop.

    Args:
        threads: Calls that run at the same time.
        queue: Calls that may wait.
        Others: those of ``Client``. Connecting happens in ``async with`` or ``await connect()``.
    """

    def __init__(self, masters: str | Sequence[str] | None = None, *, threads: int = 4,
                 queue: int = 256, **options: Any) -> None:
        self._make = functools.partial(Client, masters, **options)
        self._client: Client | None = None
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="moonpool-aio")
        self._room = threads + queue

    async def connect(self) -> AsyncClient:
        """Connects, when it has not been done."""
        if self._client is None:
            loop = asyncio.get_running_loop()
            self._client = await loop.run_in_executor(self._threads, self._make)
        return self

    async def __aenter__(self) -> AsyncClient:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for the calls under way, then lets go of connections and threads."""
        loop = asyncio.get_running_loop()
        if self._client is not None:
            await loop.run_in_executor(None, self._client.close)
        await loop.run_in_executor(None, self._threads.shutdown)

    @property
    def client(self) -> Client:
        """The blocking client underneath; raises RuntimeError before it is connected."""
        if self._client is None:
            raise RuntimeError("not connected: use `async with` or `await client.connect()`")
        return self._client

    async def _run(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._room == 0:
            raise ResourceExhausted(
                "too many asynchronous calls wait", code="RESOURCE_EXHAUSTED",
                reason="LIMIT_REACHED", hint="raise `queue`, or wait for some to end")
        cancel = CancelSource()
        kwargs.setdefault("cancel", cancel)
        self._room -= 1
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(
            self._threads, functools.partial(method, self.client, *args, **kwargs))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancel.cancel()
            # The call lets go of the buffers first.
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # looked at: nobody else will
            raise
        finally:
            self._room += 1


def _add_coroutines() -> None:
    for name in ("put", "put_many", "get", "get_many", "get_into", "get_into_many", "get_view",
                 "get_view_many", "exists", "exists_many", "match_prefix", "remove",
                 "remove_many"):
        setattr(AsyncClient, name, _coroutine_of(name))


def _coroutine_of(name: str) -> Callable[..., Any]:
    method = getattr(Client, name)

    async def call(self: AsyncClient, *args: Any, **kwargs: Any) -> Any:
        return await self._run(method, *args, **kwargs)

    call.__name__ = name
    call.__qualname__ = f"AsyncClient.{name}"
    call.__doc__ = f"``Client.{name}``, awaitable."
    return call


_add_coroutines()
