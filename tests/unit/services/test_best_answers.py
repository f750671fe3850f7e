from __future__ import annotations

import math

from inference.domain.logprobs import ScoredToken
from inference.services.best_answers import best_answers, mean_logprob


def answer(*logprobs: float | None) -> list[ScoredToken]:
    return [ScoredToken("x", b"x", logprob, place) for place, logprob in enumerate(logprobs)]


def test_the_mean_is_over_what_is_known() -> None:
    assert mean_logprob(answer(None, -1.0, -3.0)) == -2.0
    assert mean_logprob([]) == -math.inf


def test_the_best_of_each_prompt_the_best_first_and_of_equals_the_earlier() -> None:
    answers = [answer(-3.0), answer(-1.0, -1.0), answer(-2.0), answer(-5.0), [], answer(-5.0)]
    assert best_answers(answers, num_wanted=2, num_prompts=2) == [1, 2, 3, 5]
    assert best_answers(answers, num_wanted=1, num_prompts=2) == [1, 3]
    assert best_answers(answers, num_wanted=3, num_prompts=1) == [1, 2, 0]


def test_where_all_are_sent_they_stay_in_their_order() -> None:
    answers = [answer(-3.0), answer(-1.0), [], answer(-2.0)]
    assert best_answers(answers, num_wanted=2, num_prompts=2) == [0, 1, 2, 3]
