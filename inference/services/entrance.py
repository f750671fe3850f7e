"""The wait between a request that is ready and its lane: its session's turn first, then the queue.

Both waits share one deadline, set once. A request that waits for its session takes no place in the
queue, so that one busy session cannot fill it. Whoever leaves on the way, for whatever reason, leaves
nothing behind; a session is given up only when the engine has let go of the request, so that the next
one of the same session cannot run beside the rest of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from inference.domain.backend import GenerationHandle, Newcomer
from inference.domain.clock import Clock
from inference.domain.errors import ServerOverloaded
from inference.domain.requests import GenerationRequest
from inference.domain.time_limits import TimeLimits
from inference.openai.protocol import OutputRequest
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.echoed_prompt import EchoedPrompt
from inference.services.answer_group import AnswerGroup
from inference.services.caller import Caller
from inference.services.choices import Choice, ChoicePolicies
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.streaming.lifecycle import RequestLifecycle
from inference.streaming.sessions import SessionRegistry
from inference.streaming.usage_meter import ChoiceMeter

# Who has waited for its model until the last moment can still have a lane that is free.
MIN_LIMIT_S = 0.1


class Entrance:
    """`limits.admission_s` is the time for both waits together, and for that of a model that is loaded
    before; 0 waits until cancelled."""

    def __init__(self, *, sessions: SessionRegistry, clock: Clock, limits: TimeLimits) -> None:
        self._sessions = sessions
        self._clock = clock
        self._limits = limits

    def refuse_early(
        self,
        model: ServedModel,
        request: OutputRequest,
        caller: Caller,
        lifecycle: RequestLifecycle,
        *,
        num_prompt_bytes: int,
    ) -> None:
        """Raise ServerOverloaded where there is no room, before the prompt costs anything. Whoever may
        have to wait for its session first is asked later: until then there may be room."""
        if caller.session is None:
            model.backend.refuse_early(
                Newcomer(
                    request_id=lifecycle.identity.request_id,
                    user_id=caller.user_id,
                    priority=caller.priority,
                    num_prompt_bytes=num_prompt_bytes,
                    deadline_ts=self._deadline_ts(request, caller),
                )
            )

    def _limit_s(self, caller: Caller) -> float | None:
        limit_s = self._limits.admission_s
        return max(limit_s - caller.waited_s, MIN_LIMIT_S) if limit_s else None

    def _deadline_ts(self, request: OutputRequest, caller: Caller) -> float | None:
        """When a lane comes too late: at the end of its wait, or of the whole request."""
        limits_s = [self._limit_s(caller), self._limits.of_request(request.timeout_s)]
        limit_s = min([limit for limit in limits_s if limit is not None], default=None)
        return None if limit_s is None else self._clock.monotonic() + limit_s

    async def enter(
        self,
        generation: GenerationRequest,
        model: ServedModel,
        request: OutputRequest,
        caller: Caller,
        lifecycle: RequestLifecycle,
        *,
        reader: AnswerReader,
        policies: ChoicePolicies,
        echo: EchoedPrompt | None = None,
    ) -> GenerationStream:
        """The request's stream, read by `reader` behind its `echo`, once it has its lane. Raises
        ServerOverloaded (no room, or no lane in time) and whatever else the backend refuses with."""
        limit_s = self._limit_s(caller)
        arrived_ts = self._clock.monotonic()
        deadline_ts = self._deadline_ts(request, caller)
        lifecycle.note_submitted(
            num_prompt_tokens=len(generation.prompt_token_ids), max_tokens=generation.max_tokens
        )
        try:
            async with asyncio.timeout(limit_s) as deadline:
                handle = await self._submit(generation, model, caller, deadline_ts)
                stream = GenerationStream(
                    handle,
                    reader=reader,
                    submitted_ts=arrived_ts,
                    meter=lifecycle.meter,
                    echo=echo,
                    hooks=policies.hooks,
                    output_filter=policies.output_filter,
                )
                try:
                    await stream.started()
                except BaseException:
                    stream.close()
                    raise
                return stream
        except TimeoutError:
            if limit_s is None or not deadline.expired():
                raise
        raise model.backend.reject_overdue(
            request_id=generation.request_id, user_id=caller.user_id, allowed_s=limit_s
        )

    async def enter_together(
        self,
        choices: Sequence[Choice],
        model: ServedModel,
        request: OutputRequest,
        caller: Caller,
        lifecycle: RequestLifecycle,
    ) -> AnswerGroup:
        """All answers to one request, once the first of them has its lane. They are admitted one by one,
        within the same time, and if one is refused, none of them stays."""
        limit_s = self._limit_s(caller)
        arrived_ts, loop = self._clock.monotonic(), asyncio.get_running_loop()
        lane_by_ts = None if limit_s is None else loop.time() + limit_s
        deadline_ts = self._deadline_ts(request, caller)
        prompts = {id(choice.prompt): choice.prompt for choice in choices}
        lifecycle.note_submitted(
            num_prompt_tokens=sum([prompt.num_tokens for prompt in prompts.values()]),
            max_tokens=choices[0].generation.max_tokens,
        )

        def make_overdue() -> ServerOverloaded:
            return model.backend.reject_overdue(
                request_id=choices[0].generation.request_id, user_id=caller.user_id, allowed_s=limit_s or 0.0
            )

        try:
            async with asyncio.timeout_at(lane_by_ts) as deadline:
                hold = None if caller.session is None else await self._sessions.acquire(caller.session)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise make_overdue() from None
        let_go = None if hold is None else _After(len(choices), hold.release)
        streams: list[GenerationStream] = []
        try:
            for choice in choices:
                handle = model.backend.submit(choice.generation, deadline_ts=deadline_ts)
                if let_go is not None:
                    handle.when_released(let_go)
                meter = ChoiceMeter(lifecycle.meter, choice.prompt)
                streams.append(
                    GenerationStream(
                        handle,
                        reader=choice.reader,
                        submitted_ts=arrived_ts,
                        meter=meter,
                        echo=choice.echo,
                        hooks=choice.policies.hooks,
                        output_filter=choice.policies.output_filter,
                    )
                )
        except BaseException:
            for stream in streams:
                stream.close()
            if let_go is not None:
                let_go.skip(len(choices) - len(streams))
            raise
        group = AnswerGroup(
            streams,
            meter=lifecycle.meter,
            submitted_ts=arrived_ts,
            lane_by_ts=lane_by_ts,
            make_overdue=make_overdue,
        )
        try:
            await group.started()
        except BaseException:
            group.close()
            raise
        return group

    async def _submit(
        self, generation: GenerationRequest, model: ServedModel, caller: Caller, deadline_ts: float | None
    ) -> GenerationHandle:
        if caller.session is None:
            return model.backend.submit(generation, deadline_ts=deadline_ts)
        hold = await self._sessions.acquire(caller.session)
        try:
            handle = model.backend.submit(generation, deadline_ts=deadline_ts)
        except BaseException:
            hold.release()
            raise
        handle.when_released(hold.release)
        return handle


class _After:
    """Calls once what is to be done when `num` things have happened, each told by calling it."""

    def __init__(self, num: int, call: Callable[[], None]) -> None:
        self._num_left = num
        self._call = call

    def __call__(self) -> None:
        self.skip(1)

    def skip(self, num: int) -> None:
        """So many of them will not happen."""
        self._num_left -= num
        if num and not self._num_left:
            self._call()
