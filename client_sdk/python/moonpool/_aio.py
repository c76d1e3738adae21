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
    Calls take the arguments of ``Client``'s but `cancel`.

    Args:
        threads: Calls that run at the same time.
        queue: Calls that may wait.
        Others: those of ``Client``. Connecting happens in ``async with`` or ``await connect()``.
    """

    def __init__(self, masters: str | Sequence[str] | None = None, *, threads: int = 4,
                 queue: int = 256, **options: Any) -> None:
        if "cancel" in options:
            raise TypeError("a coroutine takes no `cancel`: cancel its task")
        self._make = functools.partial(Client, masters, **options)
        self._client: Client | None = None
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="moonpool-aio")
        self._calls_max = threads + queue
        self._calls: set[asyncio.Future[Any]] = set()  # under way, and waiting for a thread
        self._changes = asyncio.Lock()  # of whether there is a client
        self._is_closed = False

    async def connect(self) -> AsyncClient:
        """Connects, when it has not been done. Raises RuntimeError after close()."""
        async with self._changes:
            if self._is_closed:
                raise RuntimeError("the client is closed: make a new one")
            if self._client is None:
                await self._on_thread(self._connect)
        return self

    def _connect(self, cancel: CancelSource) -> None:
        # Kept also when nobody waits for it any more, for close() to find.
        self._client = self._make(cancel=cancel)

    async def __aenter__(self) -> AsyncClient:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Takes no more calls, waits for those there are, then lets go of connections and threads."""
        loop = asyncio.get_running_loop()
        async with self._changes:
            self._is_closed = True
            while self._calls:
                await asyncio.wait(self._calls)
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
        if "cancel" in kwargs:
            raise TypeError("a coroutine takes no `cancel`: cancel its task")
        client = self.client
        if self._is_closed:
            raise RuntimeError("the client is closed: make a new one")
        if len(self._calls) >= self._calls_max:
            raise ResourceExhausted(
                "too many asynchronous calls wait", code="RESOURCE_EXHAUSTED",
                reason="LIMIT_REACHED", hint="raise `queue`, or wait for some to end")
        return await self._on_thread(method, client, *args, **kwargs)

    async def _on_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs it, with a `cancel` of its own, on a thread; it has ended when this has."""
        cancel = CancelSource()
        work = [functools.partial(function, *args, cancel=cancel, **kwargs)]
        waiting = self._threads.submit(_run_once, work)
        call = asyncio.wrap_future(waiting)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            if waiting.cancel():  # no thread has it, and none will
                work.clear()  # the executor keeps `work` until one is free: not the buffers, too
            else:
                cancel.cancel()
            await _end_of(call)
            raise


def _run_once(work: list[Callable[[], Any]]) -> Any:
    return work.pop()()


async def _end_of(call: asyncio.Future[Any]) -> None:
    """Waits until the call has let go of its buffers, however often its task is cancelled."""
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            continue
    if not call.cancelled():
        call.exception()  # looked at: nobody else will


def _add_coroutines() -> None:
    for name in ("put", "put_many", "get", "get_many", "get_into", "get_into_many", "get_view",
                 "get_view_many", "exists", "exists_many", "match_prefix",
                 "describe", "describe_many", "list_keys", "remove", "remove_many"):
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
