"""One request for several answers as several requests to the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from inference.domain.errors import InvalidRequest
from inference.domain.output_filter import OutputFilter
from inference.domain.requests import GenerationRequest
from inference.hooking.choice_hooks import ChoiceHooks
from inference.openai.protocol import OutputRequest, choice_seed
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.echoed_prompt import EchoedPrompt
from inference.streaming.usage_meter import SharedPrompt


def _no_echo() -> None:
    return None


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """What is to be generated behind one prompt, and how each answer to it is read and begins."""

    generation: GenerationRequest
    make_reader: Callable[[], AnswerReader]
    make_echo: Callable[[], EchoedPrompt | None] = _no_echo


@dataclass(frozen=True, slots=True)
class ChoicePolicies:
    """What policies have to do with one choice: while it is generated, and on its way out."""

    hooks: ChoiceHooks | None = None
    output_filter: OutputFilter | None = None


MakePolicies = Callable[[int, GenerationRequest, AnswerReader], ChoicePolicies]


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that is to be generated. `prompt` is shared by those that continue the same one."""

    generation: GenerationRequest
    reader: AnswerReader
    prompt: SharedPrompt
    echo: EchoedPrompt | None = None
    policies: ChoicePolicies = field(default_factory=ChoicePolicies)


def make_choices(
    plans: Sequence[PromptPlan], *, num_each: int, group: UUID, make_policies: MakePolicies
) -> list[Choice]:
    """`num_each` answers to each prompt, those of the first one first. Those of one prompt differ in their
    seeds (`choice_seed`). `group` is the request's own."""
    choices: list[Choice] = []
    for number, plan in enumerate(plans):
        generation = plan.generation
        prompt = SharedPrompt(len(generation.prompt_token_ids))
        name = f"{group}/{number}" if num_each > 1 else ""
        for index in range(num_each):
            sampling = generation.sampling
            sampling = replace(sampling, seed=choice_seed(sampling.seed, index))
            one = replace(generation, sampling=sampling, sibling_group=name)
            reader = plan.make_reader()
            policies = make_policies(len(choices), one, reader)
            choices.append(Choice(one, reader, prompt, plan.make_echo(), policies))
    return choices


def check_num_answers(request: OutputRequest, *, max_answers: int) -> None:
    """Raise InvalidRequest for more answers at once than can run and wait."""
    num_answers = request.num_prompts * request.num_each
    if num_answers > max_answers:
        param = "prompt"
        if request.num_each > 1:
            param = "n" if request.num_each == request.num_choices else "best_of"
        raise InvalidRequest(
            f"Invalid '{param}': {num_answers} answers are asked for, and this model can run and queue at "
            f"most {max_answers} at the same time.",
            param=param,
        )
