"""Gives each choice of a request its share of the request's policies."""

from __future__ import annotations

from inference.domain.requests import GenerationRequest
from inference.hooking.choice_hooks import ChoiceHooks
from inference.openai.protocol import ChatRequest, OutputRequest
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.released_tokens import LateTokens, ReleasedTokens, TextTokens
from inference.services.caller import Caller
from inference.services.choices import ChoicePolicies
from inference.services.model_catalog import ServedModel
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
        gate = caller.hooks.output_gate(index, is_stream=request.is_stream, tokens=_released_tokens(reader))
        return ChoicePolicies(hooks, gate)


def _released_tokens(reader: AnswerReader) -> ReleasedTokens | None:
    if not reader.has_tokens:
        return None
    return LateTokens() if reader.is_parsed else TextTokens()


def _is_held_to_a_form(request: OutputRequest) -> bool:
    """All of the answer is: text of somebody else would break it. Where calls may be made and need not, it is
    only so inside of calls."""
    if request.constraint is not None:
        return True
    return isinstance(request, ChatRequest) and request.tool_use.is_enforced
