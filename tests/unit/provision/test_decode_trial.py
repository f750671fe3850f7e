import pytest

from skippy_site.provision.decode_trial import correlation


def test_correlation_is_pearsons() -> None:
    assert correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert correlation([1, 2, 3, 4], [1, -1, -1, 1]) == pytest.approx(0)
