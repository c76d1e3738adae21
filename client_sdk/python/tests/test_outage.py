"""What keeps an absent pool cheap and its log short: moonpool._outage."""

import logging

from moonpool._outage import Breaker, QuietLog


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_breaker_opens_at_once_and_waits_longer_each_time():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 3.0)
    assert breaker.admit() and breaker.failed()
    for pause in (1.0, 2.0, 3.0, 3.0):
        assert breaker.seconds_left() == pause
        clock.now += pause - 0.25
        assert not breaker.admit() and breaker.is_pausing
        clock.now += 0.25
        assert not breaker.is_pausing and breaker.is_open
        assert breaker.admit()
        assert not breaker.admit() and breaker.is_pausing  # one probe at a time
        assert not breaker.failed()
    clock.now += 3.0
    assert breaker.admit() and breaker.succeeded()
    assert not breaker.succeeded()
    assert breaker.admit() and not breaker.is_open and breaker.seconds_left() == 0.0
    assert breaker.failed() and breaker.seconds_left() == 1.0  # and begins anew


def test_a_breaker_counts_calls_that_failed_together_once():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    assert breaker.admit() and breaker.admit()
    assert breaker.failed()
    assert not breaker.failed()
    assert breaker.seconds_left() == 1.0


def test_a_breaker_waits_as_long_as_the_pool_says():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    breaker.failed(retry_after=5.0)
    clock.now += 4.75
    assert not breaker.admit()
    clock.now += 0.25
    assert breaker.admit()


def test_a_probe_that_learnt_nothing_leaves_its_place_to_the_next_call():
    clock = Clock()
    breaker = Breaker(clock, 1.0, 8.0)
    breaker.learnt_nothing()
    assert breaker.admit() and breaker.failed()
    clock.now += 1.0
    assert breaker.admit()
    breaker.learnt_nothing()
    assert breaker.is_open
    assert breaker.admit() and not breaker.admit()


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
