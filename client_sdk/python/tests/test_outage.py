"""What keeps an absent pool cheap and its log short: moonpool._outage."""

import logging

import moonpool
import pytest
from moonpool._outage import Breaker, QuietLog, nobody_answered


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_breaker_opens_at_once_and_waits_longer_each_time():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 3.0)
    assert breaker.failed(breaker.admit())
    for pause in (1.0, 2.0, 3.0, 3.0):
        assert breaker.seconds_left() == pause
        clock.now += pause - 0.25
        assert not breaker.admit() and breaker.is_pausing
        clock.now += 0.25
        assert not breaker.is_pausing and breaker.is_open
        probe = breaker.admit()
        assert probe
        assert not breaker.admit() and breaker.is_pausing  # one probe at a time
        assert not breaker.failed(probe)
    clock.now += 3.0
    probe = breaker.admit()
    assert breaker.succeeded(probe)
    assert not breaker.succeeded(probe)
    ticket = breaker.admit()
    assert ticket and not breaker.is_open and breaker.seconds_left() == 0.0
    assert breaker.failed(ticket) and breaker.seconds_left() == 1.0  # and begins anew


def test_a_breaker_counts_calls_that_failed_together_once():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    tickets = [breaker.admit(), breaker.admit()]
    assert [breaker.failed(ticket) for ticket in tickets] == [True, False]
    assert breaker.seconds_left() == 1.0


def test_a_breaker_waits_as_long_as_the_pool_says():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    breaker.failed(breaker.admit(), retry_after=5.0)
    clock.now += 4.75
    assert not breaker.admit()
    clock.now += 0.25
    assert breaker.admit()


def test_a_probe_that_learnt_nothing_leaves_its_place_to_the_next_call():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    ticket = breaker.admit()
    breaker.learnt_nothing(ticket)
    assert breaker.failed(ticket)
    clock.now += 1.0
    breaker.learnt_nothing(breaker.admit())
    assert breaker.is_open
    assert breaker.admit() and not breaker.admit()


@pytest.mark.parametrize("report", [Breaker.failed, Breaker.succeeded, Breaker.learnt_nothing])
def test_a_call_from_before_an_outage_says_nothing_about_the_probe(report):
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    early, first = breaker.admit(), breaker.admit()
    breaker.failed(first)
    clock.now += 1.0
    probe = breaker.admit()
    assert not report(breaker, early)
    assert breaker.is_open and not breaker.admit()  # the probe is still the only call
    clock.now += 1.0
    assert breaker.succeeded(probe) and breaker.admit()


def test_a_failure_that_an_outage_left_behind_does_not_begin_another():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    early, first = breaker.admit(), breaker.admit()
    breaker.failed(first)
    clock.now += 1.0
    breaker.succeeded(breaker.admit())
    assert not breaker.failed(early) and not breaker.is_open


def test_a_probe_is_asked_once():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    breaker.failed(breaker.admit())
    clock.now += 1.0
    probe = breaker.admit()
    breaker.learnt_nothing(probe)
    after = breaker.admit()
    assert not breaker.failed(probe) and not breaker.succeeded(probe)
    assert breaker.succeeded(after)


def test_one_answer_shows_that_the_pool_works():
    away = [moonpool.Unavailable("", code="UNAVAILABLE"),
            moonpool.DeadlineExceeded("", code="DEADLINE_EXCEEDED"),
            moonpool.Cancelled("", code="CANCELLED")]
    assert nobody_answered(away)
    for answer in (0, False, moonpool.Miss("", code="NOT_FOUND", reason="NODE_LOST"),
                   moonpool.ResourceExhausted("", code="RESOURCE_EXHAUSTED"), OSError()):
        assert not nobody_answered([*away, answer])
    assert not nobody_answered([])


def test_trouble_of_one_kind_is_logged_once_in_a_while():
    clock, lines = Clock(), []
    quiet = QuietLog(lambda *line: lines.append(line), clock, 30.0)
    for _ in range(3):
        quiet.say("a", "one")
    quiet.say("b", "two", logging.ERROR)
    clock.now += 30.0
    quiet.say("a", "one")
    assert lines == [
        (logging.WARNING, "one"),
        (logging.ERROR, "two"),
        (logging.WARNING, "one (2 more like this since the last such line)"),
    ]
