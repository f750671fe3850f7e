import pytest

from inference.admission.limiter import ConcurrencyLimiter


def test_lends_up_to_the_limit_and_takes_back_once():
    limiter = ConcurrencyLimiter(limit=2, max_limit=4)
    first, second = limiter.try_acquire(), limiter.try_acquire()
    assert first is not None and second is not None
    assert limiter.try_acquire() is None

    first.release()
    first.release()

    assert limiter.num_available == 1
    assert "released" in repr(first) and "held" in repr(second)
    limiter.check_integrity()


def test_permits_beyond_a_lowered_limit_are_retired_when_they_come_back():
    limiter = ConcurrencyLimiter(limit=2, max_limit=4)
    first, second = limiter.try_acquire(), limiter.try_acquire()
    assert first is not None and second is not None

    limiter.set_limit(1)
    assert limiter.num_retiring == 1
    first.release()
    assert (limiter.num_available, limiter.num_retiring) == (0, 0)
    second.release()
    assert limiter.num_available == 1
    limiter.check_integrity()


@pytest.mark.parametrize("limit", [0, -1, 5])
def test_a_limit_outside_of_1_and_the_lanes_is_a_fault(limit):
    with pytest.raises(ValueError, match="not within"):
        ConcurrencyLimiter(limit=limit, max_limit=4)
    with pytest.raises(ValueError, match="not within"):
        ConcurrencyLimiter(limit=1, max_limit=4).set_limit(limit)
