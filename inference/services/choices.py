"""One request for several answers as several requests to the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from inference.domain.errors import InvalidRequest
from inference.domain.requests import GenerationRequest
from inference.openai.protocol import choice_seed
from inference.parsing.answer_reader import AnswerReader
from inference.streaming.usage_meter import SharedPrompt


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that is to be generated. `prompt` is shared by those that continue the same one."""

    generation: GenerationRequest
    reader: AnswerReader
    prompt: SharedPrompt


def make_choices(
    generations: Sequence[GenerationRequest],
    *,
    num_each: int,
    group: UUID,
    make_reader: Callable[[], AnswerReader],
) -> list[Choice]:
    """`num_each` answers to each prompt, those of the first one first. Those of one prompt differ in their
    seeds (`choice_seed`). `group` is the request's own."""
    choices: list[Choice] = []
    for number, generation in enumerate(generations):
        prompt = SharedPrompt(len(generation.prompt_token_ids))
        name = f"{group}/{number}" if num_each > 1 else ""
        for index in range(num_each):
            sampling = generation.sampling
            sampling = replace(sampling, seed=choice_seed(sampling.seed, index))
            one = replace(generation, sampling=sampling, sibling_group=name)
            choices.append(Choice(one, make_reader(), prompt))
    return choices


def check_num_answers(num_answers: int, *, max_answers: int, param: str) -> None:
    """Raise InvalidRequest for more answers at once than can run and wait."""
    if num_answers > max_answers:
        raise InvalidRequest(
            f"Invalid '{param}': {num_answers} answers are asked for, and this model can run and queue at "
            f"most {max_answers} at the same time.",
            param=param,
        )
