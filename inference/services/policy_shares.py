"""Gives each choice of a request its share of the request's policies."""

from __future__ import annotations

from hooks.contracts.points import HookPoint
from inference.domain.requests import GenerationRequest
from inference.hooking.choice_hooks import ChoiceHooks
from inference.hooking.request_hooks import RequestHooks
from inference.openai.protocol import ChatRequest, OutputRequest
from inference.parsing.answer_reader import AnswerReader
from inference.services.caller import Caller
from inference.services.choices import ChoicePolicies
from inference.services.model_catalog import ServedModel
from inference.services.output_gate import OutputGate
from inference.services.prompt_pool import PromptPool


class PolicyShares:
    """What is put into answers is tokenized on the pool, in its users' turns, like prompts are."""

    def __init__(self, prompt_pool: PromptPool) -> None:
        self._prompt_pool = prompt_pool

    def choice_policies(
        self,
        index: int,
        generation: GenerationRequest,
        reader: AnswerReader,
        *,
        model: ServedModel,
        request: OutputRequest,
        caller: Caller,
    ) -> ChoicePolicies:
        """Of the choice `index` of `request`, generated as `generation` and read by `reader`."""
        if caller.hooks is None:
            return ChoicePolicies()

        async def tokenize(text: str) -> tuple[int, ...]:
            # An administrator's text, but not the template's: it holds no control tokens.
            return await self._prompt_pool.run(
                caller.user_id,
                lambda: tuple(model.tokenizer.tokenize(text, add_special=False, parse_special=False)),
            )

        hooks: ChoiceHooks | None = None
        if generation.signals is not None:
            hooks = caller.hooks.choice(
                index,
                text=reader,
                is_constrained=_is_held_to_a_form(request),
                tokenize=tokenize,
            )
        return ChoicePolicies(hooks, _output_gate(caller.hooks, index, reader, is_stream=request.is_stream))


def _output_gate(
    hooks: RequestHooks, index: int, reader: AnswerReader, *, is_stream: bool
) -> OutputGate | None:
    """None where nobody looks at what is put out."""
    if not hooks.exchange.wants(HookPoint.OUTPUT):
        return None
    return OutputGate(hooks.exchange, choice=index, is_stream=is_stream, is_parsed=reader.is_parsed)


def _is_held_to_a_form(request: OutputRequest) -> bool:
    """All of the answer is: text of somebody else would break it. Where calls may be made and need not, it is
    only so inside of calls."""
    if request.constraint is not None:
        return True
    return isinstance(request, ChatRequest) and request.tool_use.is_enforced
