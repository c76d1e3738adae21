"""Exceptions, without a pool."""

import pickle

import moonpool
import pytest


def test_an_error_is_one_line_for_people():
    error = moonpool.Miss("evicted 3s ago", code="NOT_FOUND", reason="EVICTED", hint="put it again",
                          key="k")
    assert str(error) == "NOT_FOUND (EVICTED): evicted 3s ago; put it again"
    assert str(moonpool.MoonpoolError("what")) == "UNKNOWN: what"


def test_errors_travel_between_processes():
    error = moonpool.Unavailable("gone", code="UNAVAILABLE", reason="PEER_UNREACHABLE", node="n1",
                                 retry_after=1.5)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is moonpool.Unavailable
    assert (copy.node, copy.retry_after, str(copy)) == ("n1", 1.5, str(error))


def test_classes_are_also_pythons_own():
    assert issubclass(moonpool.DeadlineExceeded, TimeoutError)
    assert issubclass(moonpool.Unavailable, ConnectionError)
    assert issubclass(moonpool.InvalidArgument, ValueError)
    assert issubclass(moonpool.Miss, KeyError)


@pytest.mark.parametrize("masters", ["127.0.0.1", ["127.0.0.1:7400", "b"], "a:", ":1", "a:0",
                                     "a:65536", "a:http", "a:1:"])
def test_what_is_no_address_is_refused_with_an_example(masters):
    with pytest.raises(moonpool.InvalidArgument) as raised:
        moonpool.Client(masters)
    assert raised.value.reason == "BAD_ARGUMENT" and '"127.0.0.1:7400"' in raised.value.hint
    assert "is not host:port; the address of" in str(raised.value)
