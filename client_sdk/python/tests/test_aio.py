"""The asyncio form."""

import asyncio
import signal

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


def test_it_must_be_connected_first(pool):
    async def work():
        client = moonpool.AsyncClient(pool.master)
        with pytest.raises(RuntimeError, match="not connected"):
            await client.get("k")
        await client.connect()
        assert await client.exists("k") is False
        await client.close()

    asyncio.run(work())
