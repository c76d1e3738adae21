"""The end of moonpool.sglang's client: what runs is cancelled, and nothing touches memory after it."""

import threading
from types import SimpleNamespace

import pytest
from moonpool.sglang import transfer
from moonpool.sglang.connection import Connection
from moonpool.sglang.options import Options
from moonpool.sglang.transfer import PoolIo

SECONDS = 30  # that a thread is given before the test gives up


class Client:
    """Reads until it is told to end."""

    def __init__(self):
        self.log = []
        self.reads = threading.Event()
        self.ends = threading.Event()

    def get_into_many(self, keys, targets, **_):
        self.reads.set()
        assert self.ends.wait(SECONDS)
        self.log.append("read ended")
        return [10] * len(keys)

    def close(self):
        self.log.append("closed")


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def io(client):
    io = PoolIo(lambda timeout: client, Options(("m:1",)))
    io.attach(1.0)
    return io


@pytest.fixture
def reading(client, io):
    """A read under way; its results, once it is over, are the list."""
    done = []
    thread = threading.Thread(
        target=lambda: done.extend(io.read(["k"], [None], [10], io.read_deadline()))
    )
    thread.start()
    assert client.reads.wait(SECONDS)
    yield done
    client.ends.set()
    thread.join(SECONDS)


def test_close_cancels_what_runs_and_waits_for_it(client, io, reading):
    io._connection.cancel = SimpleNamespace(cancel=client.ends.set)
    io.close()
    assert client.log == ["read ended", "closed"]
    io.close()
    assert client.log == ["read ended", "closed"]


def test_close_does_not_wait_for_ever(client, io, reading, monkeypatch, caplog):
    monkeypatch.setattr(transfer, "_CLOSE_SECONDS", 0.0)
    io.close()
    assert client.log == ["closed"] and "a call runs on" in caplog.text


def test_what_was_cancelled_at_the_end_is_no_outage(client, io, caplog):
    def cancelled(keys, targets, **_):
        io._connection._closed = True
        raise ConnectionError("cancelled")

    client.get_into_many = cancelled
    assert io.read(["k"], [None], [10], io.read_deadline()) == [False]
    assert caplog.text == ""


def test_a_client_that_comes_after_the_end_is_closed(client):
    made = []

    def connect(timeout):
        io.close()  # which does not wait for this
        made.append(client)
        return client

    io = PoolIo(connect, Options(("m:1",)))
    assert io.read(["k"], [None], [10], io.read_deadline()) == [False]
    assert client.log == ["closed"]
    with pytest.raises(ConnectionError, match="closed"):
        io.attach(1.0)
    assert made == [client]


def test_one_thread_connects_for_all(client):
    connects, go_on = threading.Event(), threading.Event()
    made = []

    def connect(timeout):
        connects.set()
        assert go_on.wait(SECONDS)
        made.append(client)
        return client

    connection = Connection(connect)
    threads = [threading.Thread(target=connection.client, args=(SECONDS,)) for _ in range(4)]
    threads[0].start()
    assert connects.wait(SECONDS)
    with pytest.raises(TimeoutError):
        connection.client(0.0)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(SECONDS)
    assert made == [client] and connection.client(0.0) is client


def test_memory_is_not_touched_after_the_end(io):
    with io.use() as is_open:
        assert is_open
    io.close()
    with io.use() as is_open:
        assert not is_open
