"""The whole story of a generating request: model, prompt, limit, admission, text.

    validated request → served model → files of pictures and sounds → prompt text and token ids (on a
    small thread pool, since rendering and tokenizing hold the event loop too long) → constraint →
    max_tokens → limits → pictures and sounds encoded → entrance → GenerationStream

The story is told here once for chat and completions, streamed or whole; the doors only render. Where
several answers are wanted, the last steps are made for each of them, and an AnswerGroup comes out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from inference.domain.cache_retention import CacheRetention
from inference.domain.constraint import OutputConstraint
from inference.domain.errors import InvalidRequest
from inference.domain.media_run import MediaRun
from inference.domain.phases import ChatTemplateRendered, MediaEncoded, PromptPrepared, Tokenized
from inference.domain.requests import GenerationRequest
from inference.openai.protocol import (
    DEFAULT_COMPLETION_TOKENS,
    ChatRequest,
    CompletionRequest,
    OutputRequest,
    Prompt,
)
from inference.parsing.answer_reader import AnswerReader
from inference.prompting.prompt import PromptTimes
from inference.prompting.text_size import text_bytes
from inference.prompting.token_limit import resolve_max_tokens
from inference.services.adapter_choice import chosen_adapters
from inference.services.answer_group import AnswerGroup
from inference.services.cache_namespace import cache_namespace
from inference.services.caller import Caller
from inference.services.chat_answers import ChatAnswer, chat_answer
from inference.services.chat_prompts import chat_prompt
from inference.services.choices import ChoicePolicies, PromptPlan, check_num_answers, make_choices
from inference.services.completion_prompts import completion_prompts
from inference.services.constraints import ConstraintDesk
from inference.services.entrance import Entrance
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.services.policy_shares import PolicyShares
from inference.services.prompt_pool import PromptPool
from inference.services.prompt_size import conversation_bytes
from inference.services.speculation import speculation_request
from inference.streaming.lifecycle import RequestLifecycle


class GenerationService:
    """Starts generations. Every method raises SkippyError where the request cannot start, and may be
    cancelled at any time: then nothing of it waits, holds or runs. Whoever calls holds a lease of the model.

    `has_shared_prefixes`: users may hit on each other's prompts in the prefix cache.
    """

    def __init__(
        self,
        *,
        prompt_pool: PromptPool,
        entrance: Entrance,
        constraints: ConstraintDesk,
        has_shared_prefixes: bool = False,
        max_token_gap_s: float | None = None,
    ) -> None:
        self._prompt_pool = prompt_pool
        self._entrance = entrance
        self._constraints = constraints
        self._policies = PolicyShares(prompt_pool)
        self._has_shared_prefixes = has_shared_prefixes
        self._max_token_gap_s = max_token_gap_s

    async def start_chat(
        self, model: ServedModel, request: ChatRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream | AnswerGroup:
        """Wait until a chat request has its lane."""
        check_num_answers(request, max_answers=model.backend.max_requests)
        parts = [part for message in request.messages for part in message.media]
        model.media.check(parts)
        request = model.defaults.chat.fill(request)
        num_bytes = conversation_bytes(request.conversation)
        self._entrance.refuse_early(model, request, caller, lifecycle, num_prompt_bytes=num_bytes)
        times, began_ts = PromptTimes(), time.monotonic()
        files = await model.media.load(parts)
        prompt, items = await self._prompt_pool.run(
            caller.user_id, lambda: chat_prompt(model, request.conversation, files, times)
        )
        _note_prompt(
            lifecycle,
            times,
            began_ts,
            num_messages=len(request.messages),
            num_tokens=len(prompt.token_ids),
        )
        answer = chat_answer(request, prompt)
        constraint = await self._chat_constraint(model, answer, caller)
        generation = self._generation(
            model,
            prompt.token_ids,
            replace(request, sampling=answer.sampling(model)),
            caller,
            lifecycle,
            constraint=constraint,
        )
        generation = replace(generation, prefix_boundary=prompt.boundary)
        await _reserve([generation], caller, request)
        if items:
            began_ts = time.monotonic()
            runs = await model.media.encode(items, prompt.media, user_id=caller.user_id)
            generation = replace(generation, media=runs)
            _note_media(lifecycle, began_ts, num_items=len(items), runs=runs)
        plan = PromptPlan(generation, lambda: answer.reader(model))
        return await self._enter([plan], model, request, caller, lifecycle)

    async def start_completion(
        self, model: ServedModel, request: CompletionRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream | AnswerGroup:
        """Wait until a completion has its lane."""
        check_num_answers(request, max_answers=model.backend.max_requests)
        request = model.defaults.completion.fill(request, service_max_tokens=DEFAULT_COMPLETION_TOKENS)
        num_bytes = max(map(_num_bytes, request.prompts))
        self._entrance.refuse_early(model, request, caller, lifecycle, num_prompt_bytes=num_bytes)
        times, began_ts = PromptTimes(), time.monotonic()
        prompts = await self._prompt_pool.run(
            caller.user_id, lambda: completion_prompts(model, request, times)
        )
        num_tokens = sum([len(prompt.token_ids) for prompt in prompts])
        _note_prompt(lifecycle, times, began_ts, num_messages=0, num_tokens=num_tokens)
        constraint = await self._constraint(model, request, caller)
        plans: list[PromptPlan] = []
        for prompt in prompts:
            generation = self._generation(
                model,
                prompt.token_ids,
                request,
                caller,
                lifecycle,
                constraint=constraint,
            )
            if request.num_each > request.num_choices and request.num_top_logprobs is None:
                # The best ones are told by how likely their tokens were.
                generation = replace(generation, num_top_logprobs=0)
            generation = replace(generation, num_prompt_logprobs=prompt.num_prompt_logprobs)
            plans.append(PromptPlan(generation, prompt.reader, prompt.echo))
        await _reserve([plan.generation for plan in plans], caller, request)
        return await self._enter(plans, model, request, caller, lifecycle)

    async def _enter(
        self,
        plans: Sequence[PromptPlan],
        model: ServedModel,
        request: OutputRequest,
        caller: Caller,
        lifecycle: RequestLifecycle,
    ) -> GenerationStream | AnswerGroup:
        """The only answer as it is, or all of them together."""

        def make_policies(index: int, one: GenerationRequest, reader: AnswerReader) -> ChoicePolicies:
            return self._policies.choice_policies(
                index, one, reader, model=model, request=request, caller=caller
            )

        if len(plans) * request.num_each > 1:
            choices = make_choices(
                plans, num_each=request.num_each, group=lifecycle.record_id, make_policies=make_policies
            )
            return await self._entrance.enter_together(choices, model, request, caller, lifecycle)
        (plan,) = plans
        reader = plan.make_reader()
        return await self._entrance.enter(
            plan.generation,
            model,
            request,
            caller,
            lifecycle,
            reader=reader,
            policies=make_policies(0, plan.generation, reader),
            echo=plan.make_echo(),
        )

    def _generation(
        self,
        model: ServedModel,
        prompt: tuple[int, ...],
        request: OutputRequest,
        caller: Caller,
        lifecycle: RequestLifecycle,
        *,
        constraint: OutputConstraint | None,
    ) -> GenerationRequest:
        """Of a request that the model's defaults have filled."""
        description = model.description
        assert request.max_tokens is not None
        max_tokens = resolve_max_tokens(
            request.max_tokens,
            num_prompt_tokens=len(prompt),
            max_request_tokens=description.max_request_tokens,
        )
        _check_against_model(request, max_tokens=max_tokens, num_vocabulary=description.num_vocabulary)
        sampling = request.sampling.resolve(description.sampling_defaults)
        if sampling.mirostat_mode and sampling.temperature <= 0:
            raise InvalidRequest(
                "Invalid 'mirostat_mode': it needs a temperature above 0, and this model's default is 0.",
                param="mirostat_mode",
            )
        adapters = chosen_adapters(
            model.settings.adapters,
            request.adapters,
            named=model.adapter,
            may_choose=model.may_choose_adapters,
        )
        retention = CacheRetention(request.prompt_cache_retention or "")
        lifecycle.note_retention(retention)
        return GenerationRequest(
            request_id=lifecycle.identity.request_id,
            prompt_token_ids=prompt,
            max_tokens=max_tokens,
            sampling=sampling,
            ignore_eos=bool(request.ignore_eos),
            min_tokens=request.min_tokens,
            num_top_logprobs=request.num_top_logprobs,
            cache_namespace=cache_namespace(
                user_id=caller.user_id,
                prompt_cache_key=request.prompt_cache_key,
                is_shared=self._has_shared_prefixes,
                adapters=adapters,
            ),
            adapters=adapters,
            cache_retention=retention,
            user_id=caller.user_id,
            priority=caller.priority,
            constraint=constraint,
            signals=None if caller.hooks is None else caller.hooks.signal_request,
            max_token_gap_s=self._max_token_gap_s,
            speculation=speculation_request(
                request.speculation, model.settings.speculation, description.speculation_modes
            ),
        )

    async def _chat_constraint(
        self, model: ServedModel, answer: ChatAnswer, caller: Caller
    ) -> OutputConstraint | None:
        """Of the first of the answer's specs that can be kept, with its thinking. Raises InvalidRequest."""
        compiled: OutputConstraint | None = None
        for index, spec in enumerate(answer.specs):
            try:
                compiled = await self._constraints.constraint_compile(
                    compiler=model.constraints, spec=spec, user_id=caller.user_id, param=answer.param
                )
                break
            except InvalidRequest:
                if index == len(answer.specs) - 1:
                    raise
        if compiled is None and answer.request.reasoning.max_tokens is None:
            return None
        return await self._prompt_pool.run(caller.user_id, lambda: answer.constraint(model, compiled))

    async def _constraint(
        self, model: ServedModel, request: OutputRequest, caller: Caller
    ) -> OutputConstraint | None:
        if request.constraint is None:
            return None
        return await self._constraints.constraint_compile(
            compiler=model.constraints,
            spec=request.constraint,
            user_id=caller.user_id,
            param=request.constraint_param,
        )


def _note_prompt(
    lifecycle: RequestLifecycle, times: PromptTimes, began_ts: float, *, num_messages: int, num_tokens: int
) -> None:
    request_id = lifecycle.identity.request_id
    if times.template_s is not None:
        lifecycle.note_phase(
            ChatTemplateRendered(request_id, times.template_s, num_messages, times.num_text_bytes)
        )
    lifecycle.note_phase(Tokenized(request_id, times.tokenize_s, num_tokens))
    lifecycle.note_phase(PromptPrepared(request_id, time.monotonic() - began_ts, num_tokens))


def _note_media(
    lifecycle: RequestLifecycle, began_ts: float, *, num_items: int, runs: Sequence[MediaRun]
) -> None:
    num_tokens = sum([run.num_tokens for run in runs])
    elapsed_s = time.monotonic() - began_ts
    lifecycle.note_phase(MediaEncoded(lifecycle.identity.request_id, elapsed_s, num_items, num_tokens))


def _num_bytes(prompt: Prompt) -> int:
    return text_bytes(prompt) if isinstance(prompt, str) else len(prompt)


async def _reserve(generations: Sequence[GenerationRequest], caller: Caller, request: OutputRequest) -> None:
    """Before admission: who is over its limits takes no place in the queue. Prompts are paid for once."""
    if caller.limit_gate is not None:
        await caller.limit_gate.reserve(
            num_prompt_tokens=sum([len(one.prompt_token_ids) for one in generations]),
            max_tokens=max([one.max_tokens for one in generations]),
            num_answers=len(generations) * request.num_each,
        )


def _check_against_model(request: OutputRequest, *, max_tokens: int, num_vocabulary: int) -> None:
    """What could not be checked before the model and the prompt's length were known."""
    if request.min_tokens > max_tokens:
        raise InvalidRequest(
            f"Invalid 'min_tokens': it must not exceed the {max_tokens} tokens that may be generated.",
            param="min_tokens",
        )
    if any(token_id >= num_vocabulary for token_id, _ in request.sampling.logit_bias or ()):
        raise InvalidRequest(
            f"Invalid 'logit_bias': the token ids of this model are 0 to {num_vocabulary - 1}.",
            param="logit_bias",
        )
