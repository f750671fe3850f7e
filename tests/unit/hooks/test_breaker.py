import random

import pytest

from hooks.webhooks.breaker import BreakerRules, BreakerState, CircuitBreaker, CircuitOpen
from tests.clocks import FakeClock

RULES = BreakerRules(max_failures=3, open_s=10.0)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def breaker(clock):
    made = CircuitBreaker(RULES, clock)
    yield made
    made.check_integrity()


def fail(breaker, times=1):
    for _ in range(times):
        with breaker.enter() as made:
            made.fail()


def succeed(breaker):
    with breaker.enter() as made:
        made.succeed()


def test_it_opens_after_failures_in_a_row(breaker):
    fail(breaker, 2)
    succeed(breaker)
    fail(breaker, 2)
    assert breaker.state is BreakerState.CLOSED
    fail(breaker)

    assert breaker.state is BreakerState.OPEN
    with pytest.raises(CircuitOpen):
        breaker.enter()
    assert breaker.statistics().num_openings == 1


def test_after_its_time_one_call_goes_through_and_its_success_closes_it(breaker, clock):
    fail(breaker, 3)
    clock.advance(10)
    assert breaker.state is BreakerState.HALF_OPEN

    with breaker.enter() as probe:
        with pytest.raises(CircuitOpen):
            breaker.enter()
        probe.succeed()

    assert breaker.state is BreakerState.CLOSED
    assert breaker.statistics().num_failures == 0
    fail(breaker, 2)
    assert breaker.state is BreakerState.CLOSED


def test_a_probe_that_fails_opens_it_again_for_as_long(breaker, clock):
    fail(breaker, 3)
    clock.advance(10)
    fail(breaker)

    assert breaker.state is BreakerState.OPEN
    clock.advance(9.9)
    with pytest.raises(CircuitOpen):
        breaker.enter()
    clock.advance(0.1)
    succeed(breaker)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.statistics().num_openings == 2


def test_a_probe_that_was_given_up_lets_the_next_call_be_it(breaker, clock):
    fail(breaker, 3)
    clock.advance(10)
    with breaker.enter():
        pass

    assert breaker.state is BreakerState.HALF_OPEN
    succeed(breaker)
    assert breaker.state is BreakerState.CLOSED


def test_calls_that_began_before_it_opened_change_nothing(breaker, clock):
    old = [breaker.enter() for _ in range(4)]
    fail(breaker, 3)
    old[0].succeed()
    old[1].fail()
    assert breaker.state is BreakerState.OPEN
    clock.advance(10)
    old[2].fail()
    assert breaker.state is BreakerState.HALF_OPEN
    succeed(breaker)
    old[3].fail()

    assert breaker.statistics().num_failures == 0
    assert breaker.statistics().num_openings == 1


def test_only_the_first_verdict_counts(breaker):
    made = breaker.enter()
    made.fail()
    made.fail()
    made.succeed()

    assert breaker.statistics().num_failures == 1


def test_whatever_happens_it_stays_whole_and_answers_again(breaker, clock):
    dice = random.Random(7)
    held = []
    for _ in range(3000):
        action = dice.randrange(5)
        if action == 0:
            clock.advance(dice.random() * 6)
        elif action == 1 and not breaker.would_refuse:
            held.append(breaker.enter())
        elif held:
            made = held.pop(dice.randrange(len(held)))
            dice.choice([made.succeed, made.fail, lambda made=made: made.__exit__()])()
        breaker.check_integrity()
    for made in held:
        made.__exit__()
    clock.advance(10)
    succeed(breaker)

    assert breaker.state is BreakerState.CLOSED
