"""Which of the answers that were generated are sent: those that the model itself finds most likely.

OpenAI's `best_of`: the ones "with the highest log probability per token".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from inference.domain.logprobs import ScoredToken


def mean_logprob(tokens: Sequence[ScoredToken]) -> float:
    """Of the tokens of one answer, natural; -inf where there are none, so that an empty answer is only
    sent for want of others."""
    logprobs = [token.logprob for token in tokens if token.logprob is not None]
    return sum(logprobs) / len(logprobs) if logprobs else -math.inf


def best_answers(answers: Sequence[Sequence[ScoredToken]], *, num_wanted: int, num_prompts: int) -> list[int]:
    """The places of the `num_wanted` best of each prompt's answers, prompt by prompt, the best first; of
    those that are equally likely the earlier. All prompts have equally many answers in `answers`, in their
    order."""
    num_each = len(answers) // num_prompts
    chosen: list[int] = []
    for begin in range(0, len(answers), num_each):
        places = range(begin, begin + num_each)
        if num_wanted == num_each:
            chosen += places
        else:
            chosen += sorted(places, key=lambda place: -mean_logprob(answers[place]))[:num_wanted]
    return chosen
