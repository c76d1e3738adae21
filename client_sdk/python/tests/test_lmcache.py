"""What LMCache's connector is spared while the pool is away, and what its log has."""

import logging
import os
import select

import pytest

from moonpool.lmcache import connector as lmcache
from moonpool.lmcache.admission import LOADS, LOOKUPS, STORES, Admission

AWAY = "UNAVAILABLE (PEER_UNREACHABLE): no master answers"
PAUSE = " (they fail at once for 0.5 s now, then one is tried, and so on with longer pauses)"


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Watched:
    """An Admission, and its log."""

    def __init__(self):
        self.clock, self.lines = Clock(), []
        self.admission = Admission(lambda level, line: self.lines.append(line), self.clock)

    def batch(self, what, error="", results=(True,), ok=None):
        """Whether it was admitted; if so, it came back like that."""
        if not (ticket := self.admission.admit(what)):
            return False
        self.admission.note(what, ticket, not error if ok is None else ok, error, list(results))
        return True


def test_one_batch_per_pause_finds_out_whether_the_pool_is_back():
    watched = Watched()
    assert watched.batch(LOOKUPS, AWAY, [False, False])
    assert not watched.batch(LOOKUPS)
    assert watched.batch(LOADS)  # where a node hangs, one kind works and the other does not
    watched.clock.now += 0.5
    assert watched.batch(LOOKUPS)
    assert watched.batch(LOOKUPS)
    assert watched.lines == [f"lookups: {AWAY}{PAUSE}", "lookups go well again"]


@pytest.mark.parametrize("error, results, ok", [
    (AWAY, [True, False], False),  # one of two nodes is away
    (AWAY, [False, False], True),  # one of two keys is not in the pool, says the pool
    ("RESOURCE_EXHAUSTED (NO_SPACE): full", [False], False),
    ("INVALID_ARGUMENT (KEY_TOO_LONG): 1025 bytes", [False], False),
])
def test_an_answer_is_no_outage(error, results, ok):
    watched = Watched()
    assert watched.batch(STORES, error, results, ok)
    assert watched.batch(STORES)


@pytest.mark.parametrize("error", [
    "RESOURCE_EXHAUSTED (LIMIT_REACHED): too many asynchronous calls wait",
    "CANCELLED (SHUTTING_DOWN): the connector is closed",
])
def test_a_batch_that_never_went_says_nothing(error):
    watched = Watched()
    watched.batch(STORES, AWAY, [False])
    watched.clock.now += 0.5
    assert watched.batch(STORES, error, [False])
    watched.batch(STORES, AWAY, [False])  # so the next one is the probe, and it fails
    watched.clock.now += 0.5
    assert not watched.batch(STORES)


def test_each_kind_of_failure_is_said_once_in_a_while():
    watched = Watched()
    full = "RESOURCE_EXHAUSTED (NO_SPACE): block {} of node n1"
    for i in range(3):
        watched.batch(STORES, full.format(i), [False])
        watched.batch(STORES)  # in between they go well: that is no reason to say it again
    watched.clock.now += 30
    watched.batch(STORES, full.format(3), [False])
    assert watched.lines == [
        "stores: RESOURCE_EXHAUSTED (NO_SPACE): block 0 of node n1",
        "stores: RESOURCE_EXHAUSTED (NO_SPACE): block 3 of node n1 "
        "(2 more like this since the last such line)",
    ]


class FakeNative:
    """moonpool._native.Connector; each batch is done when it is submitted, as `error` says."""

    def __init__(self, **_):
        self.error = ""
        self.done = []
        self.count = 0
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)

    def event_fd(self):
        return self.fd

    def wake(self):
        os.eventfd_write(self.fd, 1)

    def submit_batch_exists(self, keys):
        return self._submit(keys)

    def submit_batch_set(self, keys, views):
        if len(views) != len(keys):
            raise ValueError("as many")
        return self._submit(keys)

    submit_batch_get = submit_batch_set
    submit_batch_delete = submit_batch_exists

    def _submit(self, keys):
        self.count += 1
        self.done.append((self.count, not self.error, self.error, [not self.error] * len(keys)))
        self.wake()
        return self.count

    def drain_completions(self):
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass
        done, self.done = self.done, []
        return done


@pytest.fixture
def connector(monkeypatch):
    monkeypatch.setattr(lmcache._native, "Connector", FakeNative)
    made = lmcache.Connector(masters="m:1", fingerprint="f")
    made._admission = Admission(lambda level, line: None, Clock())
    yield made
    os.close(made.event_fd())


def is_ready(connector):
    poller = select.poll()
    poller.register(connector.event_fd(), select.POLLIN)
    return bool(poller.poll(0))


def test_what_is_refused_is_done_like_any_other_batch(connector):
    connector._native.error = AWAY
    tried = connector.submit_batch_exists(["a", "b"])
    assert connector.drain_completions() == [(tried, False, AWAY, [False, False])]
    assert not is_ready(connector)
    refused = [connector.submit_batch_exists(["a", "b"]), connector.submit_batch_exists(["c"])]
    assert is_ready(connector)
    assert connector._native.count == 1
    stored = connector.submit_batch_set(["a"], [b"1"])
    assert len({tried, stored, *refused}) == 4
    drained = {number: rest for number, *rest in connector.drain_completions()}
    assert drained == {
        stored: [False, AWAY, [False]],
        refused[0]: [False, lmcache.NOT_TRIED, [False, False]],
        refused[1]: [False, lmcache.NOT_TRIED, [False]],
    }
    assert not is_ready(connector)
    assert connector.drain_completions() == []


def test_wrong_usage_raises_and_says_nothing_of_the_pool(connector):
    with pytest.raises(ValueError):
        connector.submit_batch_set(["a"], [])
    number = connector.submit_batch_set(["a"], [b"1"])
    assert connector.drain_completions() == [(number, True, "", [True])]


def test_the_log_is_the_loggers(caplog, connector):
    made = lmcache.Connector(masters="m:1", fingerprint="f")
    made._native.error = "DATA_LOSS: damaged"
    made.submit_batch_delete(["a"])
    with caplog.at_level(logging.WARNING, "moonpool.lmcache"):
        made.drain_completions()
    assert [record.getMessage() for record in caplog.records] == ["stores: DATA_LOSS: damaged"]
    os.close(made.event_fd())
