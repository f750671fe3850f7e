import pytest

from inference.admission.token_budget import TokenBudget, needed_tokens


@pytest.mark.parametrize(
    ("capacity", "prompt", "max_tokens", "expected"),
    [(1024, 400, 128, 528), (8192, 4506, 4096, 5018), (8192, 1, 512, 513)],
)
def test_reserves_the_prompt_and_at_most_512_of_the_answer(capacity, prompt, max_tokens, expected):
    budget = TokenBudget(num_capacity_tokens=capacity)

    reservation = budget.try_reserve(needed_tokens(num_prompt_tokens=prompt, max_tokens=max_tokens))

    assert reservation is not None
    assert reservation.num_tokens == expected
    assert budget.statistics().num_reserved_tokens == expected
    budget.check_integrity()


def test_an_exact_fit_is_taken_and_one_token_more_waits():
    budget = TokenBudget(num_capacity_tokens=1000)
    assert budget.try_reserve(needed_tokens(num_prompt_tokens=490, max_tokens=10)) is not None

    assert budget.try_reserve(needed_tokens(num_prompt_tokens=491, max_tokens=10)) is None
    assert budget.try_reserve(needed_tokens(num_prompt_tokens=490, max_tokens=10)) is not None
    budget.check_integrity()


def test_release_gives_back_once_however_often_it_is_called():
    budget = TokenBudget(num_capacity_tokens=100)
    first = budget.try_reserve(needed_tokens(num_prompt_tokens=30, max_tokens=10))
    second = budget.try_reserve(needed_tokens(num_prompt_tokens=30, max_tokens=10))
    assert first is not None and second is not None

    first.release()
    first.release()

    assert budget.statistics().num_reserved_tokens == second.num_tokens
    assert "released" in repr(first) and "held" in repr(second)
    budget.check_integrity()


def test_what_exactly_fills_the_pool_is_possible_and_one_token_more_is_not():
    budget = TokenBudget(num_capacity_tokens=100)

    assert budget.is_possible(100)
    assert not budget.is_possible(101)
    assert budget.num_free_tokens == 100
