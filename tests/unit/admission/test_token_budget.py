import pytest

from inference.admission.token_budget import TokenBudget
from inference.domain.errors import ContextLengthExceeded


@pytest.mark.parametrize(
    ("capacity", "prompt", "max_tokens", "expected"),
    [(1024, 400, 128, 528), (8192, 4506, 4096, 5018), (8192, 1, 512, 513)],
)
def test_reserves_the_prompt_and_at_most_512_of_the_answer(capacity, prompt, max_tokens, expected):
    budget = TokenBudget(num_capacity_tokens=capacity)

    reservation = budget.try_reserve(prompt_tokens=prompt, max_tokens=max_tokens)

    assert reservation is not None
    assert reservation.num_tokens == expected
    assert budget.statistics().num_reserved_tokens == expected
    budget.check_integrity()


def test_an_exact_fit_is_taken_and_one_token_more_waits():
    budget = TokenBudget(num_capacity_tokens=1000)
    assert budget.try_reserve(prompt_tokens=490, max_tokens=10) is not None

    assert budget.try_reserve(prompt_tokens=491, max_tokens=10) is None
    assert budget.try_reserve(prompt_tokens=490, max_tokens=10) is not None
    budget.check_integrity()


def test_release_gives_back_once_however_often_it_is_called():
    budget = TokenBudget(num_capacity_tokens=100)
    first = budget.try_reserve(prompt_tokens=30, max_tokens=10)
    second = budget.try_reserve(prompt_tokens=30, max_tokens=10)
    assert first is not None and second is not None

    first.release()
    first.release()

    assert budget.statistics().num_reserved_tokens == second.num_tokens
    assert "released" in repr(first) and "held" in repr(second)
    budget.check_integrity()


def test_what_can_never_fit_is_an_error_and_names_both_numbers():
    budget = TokenBudget(num_capacity_tokens=100)

    with pytest.raises(ContextLengthExceeded, match=r"101 .* 100"):
        budget.check_possible(prompt_tokens=100, max_tokens=1)
    budget.check_possible(prompt_tokens=99, max_tokens=1)
