"""Looking at what is in the pool: describe, list_keys."""

import asyncio

import moonpool
import pytest


def test_describe_says_size_and_nodes(client):
    client.put("twice", b"12345", replicas=2)
    client.put("empty", b"")
    both = client.describe("twice")
    assert both.nbytes == 5
    assert len(both.replicas) == 2 and both.replicas[0] != both.replicas[1]
    assert all(len(nodes) == 1 for nodes in both.replicas)
    found = client.describe_many(["empty", "never", "twice"])
    assert found[0].nbytes == 0 and found[2].nbytes == 5
    assert isinstance(found[1], moonpool.Miss) and found[1].reason == "NEVER_STORED"
    with pytest.raises(moonpool.Miss):
        client.describe("never")


def test_list_keys_pages_through_the_namespace(client):
    names = {f"k{i}" for i in range(25)}
    client.put_many(sorted(names), [b"x"] * len(names))
    client.put("other", b"x")
    client.put(b"\xff\x01", b"x")
    seen, after = [], ""
    while True:
        page = client.list_keys("k", limit=10, after=after)
        assert len(page.keys) <= 10
        seen += page.keys
        after = page.next
        if not after:
            break
    assert len(seen) == len(names) and set(seen) == names
    assert set(client.list_keys().keys) == names | {"other", b"\xff\x01"}
    assert client.list_keys("nothing").keys == []
    with pytest.raises(moonpool.InvalidArgument):
        client.list_keys(limit=0)
    with pytest.raises(moonpool.InvalidArgument):
        client.list_keys(after="no token")


def test_both_are_there_for_asyncio(pool):
    async def look():
        async with moonpool.AsyncClient(pool.master, namespace="aio-look", fingerprint="f") as client:
            await client.put("k", b"123")
            page = await client.list_keys()
            return page.keys, (await client.describe("k")).nbytes

    assert asyncio.run(look()) == (["k"], 3)
