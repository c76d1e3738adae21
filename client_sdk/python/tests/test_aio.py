"""The asyncio form."""

import asyncio
import gc
import pathlib
import re
import signal
import threading
import weakref

import moonpool
import pytest
from pool import Master


def test_coroutines_do_what_calls_do(pool):
    async def work():
        async with moonpool.AsyncClient(pool.master, namespace="aio", fingerprint="t") as client:
            assert await client.put("a", b"1") is True
            assert await client.get("a") == b"1"
            assert await client.get_many(["a"]) == [b"1"]
            into = bytearray(1)
            assert await client.get_into("a", into) == 1 and into == b"1"
            found = await asyncio.gather(*(client.exists("a") for _ in range(50)))
            assert found == [True] * 50
            with pytest.raises(moonpool.Miss):
                await client.get("x")
            assert (await client.match_prefix(["a", "x"])).matched == 1
            assert await client.remove("a") is True
            return client

    closed = asyncio.run(work())
    assert closed.client.closed


def test_more_calls_than_there_is_room_for_are_refused(pool):
    async def work():
        async with moonpool.AsyncClient(pool.master, threads=1, queue=1) as client:
            results = await asyncio.gather(*(client.exists("a") for _ in range(5)),
                                           return_exceptions=True)
            refused = [r for r in results if isinstance(r, moonpool.ResourceExhausted)]
            assert len(refused) == 3 and refused[0].reason == "LIMIT_REACHED"
            assert await client.exists("a") is False  # there is room again

    asyncio.run(work())


def test_cancelling_the_task_cancels_the_call():
    async def work(master):
        async with moonpool.AsyncClient(master.address) as client:
            assert await client.exists("k") is False
            master.process.send_signal(signal.SIGSTOP)  # nobody answers from here on
            task = asyncio.ensure_future(client.exists("k", timeout=600))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            master.process.send_signal(signal.SIGCONT)
            assert await client.exists("k") is False

    with Master() as master:
        try:
            asyncio.run(work(master))
        finally:
            master.process.send_signal(signal.SIGCONT)


class Slow:
    """A client whose call ends when it is told to, whatever is cancelled."""

    def __init__(self):
        self.begun, self.ends = threading.Event(), threading.Event()

    def work(self, *buffers, cancel):
        self.begun.set()
        self.ends.wait()


def test_cancelling_twice_waits_for_the_call_all_the_same():
    async def work():
        slow, client = Slow(), moonpool.AsyncClient("127.0.0.1:1")
        client._client = slow
        task = asyncio.ensure_future(client._run(Slow.work))
        await asyncio.get_running_loop().run_in_executor(None, slow.begun.wait)
        for _ in range(3):
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=0)
            assert not done
        slow.ends.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


def test_a_call_that_waits_for_a_thread_ends_at_once_with_its_task():
    class Buffer:
        pass

    async def work():
        slow, client = Slow(), moonpool.AsyncClient("127.0.0.1:1", threads=1, queue=1)
        client._client = slow
        first = asyncio.ensure_future(client._run(Slow.work))
        await asyncio.get_running_loop().run_in_executor(None, slow.begun.wait)
        buffer = Buffer()
        lent = weakref.ref(buffer)
        try:
            for _ in range(3):  # each takes the place that the one before has left
                second = asyncio.ensure_future(client._run(Slow.work, buffer))
                await asyncio.sleep(0)
                second.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await second
            del buffer, second
            await asyncio.sleep(0)  # the loop has the task until here
            gc.collect()
            assert lent() is None and not first.done()
        finally:
            slow.ends.set()
        await first
        client._threads.shutdown()

    asyncio.run(work())


def test_connecting_ends_with_its_task():
    async def work(master):
        client = moonpool.AsyncClient(master.address, timeout=600)
        task = asyncio.ensure_future(client.connect())
        while not client._calls:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        master.process.send_signal(signal.SIGCONT)
        await client.connect()
        assert await client.exists("k") is False
        await client.close()

    with Master() as master:
        master.process.send_signal(signal.SIGSTOP)  # nobody answers from here on
        try:
            asyncio.run(work(master))
        finally:
            master.process.send_signal(signal.SIGCONT)


def test_what_was_refused_takes_no_room(pool):
    async def work():
        client = moonpool.AsyncClient(pool.master, threads=1, queue=1)
        for _ in range(5):
            with pytest.raises(RuntimeError, match="not connected"):
                await client.exists("k")
        assert len(await asyncio.gather(*(client.connect() for _ in range(3)))) == 3
        assert await asyncio.gather(client.exists("k"), client.exists("k")) == [False, False]
        with pytest.raises(TypeError, match="cancel its task"):
            await client.exists("k", cancel=moonpool.CancelSource())
        running = asyncio.ensure_future(client.exists("k"))
        await asyncio.sleep(0)
        await client.close()
        assert await running is False
        for late in (client.exists("k"), client.connect()):
            with pytest.raises(RuntimeError, match="closed"):
                await late

    asyncio.run(work())


def test_it_must_be_connected_first(pool):
    async def work():
        client = moonpool.AsyncClient(pool.master)
        with pytest.raises(RuntimeError, match="not connected"):
            await client.get("k")
        await client.connect()
        assert await client.exists("k") is False
        await client.close()

    asyncio.run(work())


def test_the_stub_names_every_call():
    """_aio.pyi lists by hand what is made from Client."""
    stub = (pathlib.Path(moonpool.__file__).parent / "_aio.pyi").read_text()
    made = {name for name in vars(moonpool.AsyncClient) if not name.startswith("_")}
    named = set(re.findall(r"^    async def (\w+)", stub, re.MULTILINE)) | {"client"}
    assert made == named - {"__aenter__", "__aexit__"}
