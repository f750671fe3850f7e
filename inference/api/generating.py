"""What the generating doors share: an answer that is streamed or whole.

A door differs from another only in how it reads its body and how it writes its answer.
"""

from __future__ import annotations

import time
from typing import Any

from accounts.contracts import Principal
from hooks.contracts.view import HookCaller
from inference.api.answer_keeper import AnswerKeeper
from inference.api.choices import WholeChoices, stream_choices
from inference.api.http import HttpRequest
from inference.api.question import FrameWriter, Question, Rendering, part_frames
from inference.api.recorded import RecordedConsumer
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import Answer, MessageBuilder, MessageDelta
from inference.hooking.request_hooks import RequestHooks
from inference.openai.capsule_headers import capsule_headers, nonce_headers
from inference.openai.errors import Header
from inference.openai.protocol import OutputRequest
from inference.openai.sse import CONTENT_TYPE as STREAM_TYPE
from inference.services.answer_group import AnswerGroup
from inference.services.caller import Caller
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.services.tokenization import BYTES_PER_TOKEN, tokens_text
from inference.streaming.lifecycle import RequestLifecycle


class GeneratingConsumer(RecordedConsumer):
    """Answers that are generated: as a stream, or whole."""

    async def read(self, request: HttpRequest) -> OutputRequest:
        """Validate the body."""
        raise NotImplementedError

    def question(self, request: Any, model: ServedModel) -> Question:
        """How the answer to what `read` gave is written."""
        raise NotImplementedError

    async def start(
        self, model: ServedModel, request: Any, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream | AnswerGroup:
        """Wait until the request has its lane."""
        raise NotImplementedError

    def exchange_headers(self) -> tuple[Header, ...]:
        return nonce_headers(self.scope["headers"])

    async def ask_policies(
        self, asked: OutputRequest, principal: Principal, lifecycle: RequestLifecycle
    ) -> tuple[OutputRequest, RequestHooks | None]:
        desk = self._runtime.hook_desk
        if desk is None:
            return asked, None
        model = self._runtime.fleet.id_of(asked.model, principal)
        exchange = desk.open(
            HookCaller(
                user_id=principal.user_id,
                username=principal.username,
                key_id=principal.key_id,
                key_name=principal.key_name,
                team_id=principal.team_id,
                team_name=principal.team_name,
            ),
            model=model,
            endpoint=self.endpoint,
            opts_in=asked.opts_in_hooks,
            request_id=self.respond.request_id,
        )
        if exchange is None:
            return asked, None
        # Before anything is waited for: from now on there is an end to be told of.
        lifecycle.note_hooks(exchange)
        hooks = RequestHooks(
            exchange,
            endpoint=self.endpoint,
            request_id=self.respond.request_id,
            note=lifecycle.note_phase,
        )
        token_texts = await self._token_texts(asked, principal)
        return await hooks.before(asked, self._runtime.off_loop, token_texts=token_texts), hooks

    async def _token_texts(self, asked: OutputRequest, principal: Principal) -> tuple[str, ...]:
        """What prompts say that came as token ids: only their model knows, so that it is loaded for it."""
        prompts = asked.token_prompts
        if not prompts:
            return ()
        with await self._runtime.lease(asked.model, principal, timeout_s=asked.timeout_s) as lease:
            tokenizer = lease.model.tokenizer
            return await self._runtime.off_loop(
                lambda: tuple([tokens_text(tokenizer, prompt) for prompt in prompts]),
                num_bytes=BYTES_PER_TOKEN * sum(map(len, prompts)),
            )

    # -- the answer -------------------------------------------------------------------------------

    async def serve(
        self,
        asked: OutputRequest,
        model: ServedModel,
        caller: Caller,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        model.check_generates()
        question = self.question(asked, model)
        if question.rendering.error_event is not None:
            self.respond.error_event = question.rendering.error_event
        stream = await self.start(model, asked, caller, lifecycle)
        try:
            if asked.is_stream:
                await self._stream(question, stream, lifecycle, keeper)
            else:
                await self._whole(question, stream, lifecycle, keeper, caller.hooks)
        finally:
            stream.close()

    async def _stream(
        self,
        question: Question,
        stream: GenerationStream | AnswerGroup,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        rendering = question.rendering
        if not self.respond.is_begun:
            headers = (*question.headers, *self.exchange_headers())
            await self.respond.begin_stream(headers=headers)
        if isinstance(stream, AnswerGroup):
            assert question.choices is not None
            last = await stream_choices(
                question.choices, stream, respond=self.respond, channel=self._channel, keeper=keeper
            )
            began_ts = time.monotonic()
        else:
            await self._stream_parts(rendering, stream, keeper)
            began_ts = time.monotonic()
            last = rendering.end(stream.result)
        conclusion = rendering.conclude()
        self._note_built(lifecycle, began_ts, num_bytes=len(last), is_stream=True)
        keeper.add(last + conclusion)
        self._complete(question, stream, lifecycle, keeper)
        # What the client needs is there at once; only the last word says that it is also recorded.
        await self.respond.frame(last)
        await lifecycle.recorded()
        await keeper.end(STREAM_TYPE.decode())
        await self.respond.end_stream(conclusion)

    async def _stream_parts(
        self, rendering: Rendering, stream: GenerationStream, keeper: AnswerKeeper
    ) -> None:
        first = rendering.begin(stream.usage_so_far)
        if first:
            keeper.add(first)
            await self.respond.frame(first)
        if not keeper.is_keeping:
            stream.write_at_once(FrameWriter(rendering, self._channel))
        async for part in stream.parts():
            frames = part_frames(rendering, part)
            keeper.add(frames, *part.deltas)
            if frames:
                await self.respond.frame(frames)

    async def _whole(
        self,
        question: Question,
        stream: GenerationStream | AnswerGroup,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
        hooks: RequestHooks | None,
    ) -> None:
        if isinstance(stream, AnswerGroup):
            assert question.choices is not None
            choices = WholeChoices(stream.num_choices)
            await stream.read(choices)
            began_ts = time.monotonic()
            body = choices.body(question.choices, question.request, stream.result, keeper)
            texts = choices.texts
        else:
            deltas: list[MessageDelta] = []
            tokens: list[ScoredToken] = []
            async for part in stream.parts():
                deltas += part.deltas
                tokens += part.tokens
            began_ts = time.monotonic()
            answer = Answer(MessageBuilder(deltas).message(), tuple(tokens), tuple(deltas))
            body = question.rendering.whole(answer, stream.result)
            keeper.add(b"", *deltas)
            texts = (answer.message.content or "",)
        self._note_built(lifecycle, began_ts, num_bytes=len(body), is_stream=False)
        keeper.add(body)
        self._complete(question, stream, lifecycle, keeper, texts)
        await lifecycle.recorded()
        await keeper.end("application/json")
        marker = None if hooks is None else hooks.exchange.capsule
        capsule = capsule_headers(self.scope["headers"], marker)
        await self.respond.json(body, headers=(*question.headers, *capsule))

    def _complete(
        self,
        question: Question,
        stream: GenerationStream | AnswerGroup,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
        texts: tuple[str, ...] = (),
    ) -> None:
        """Before the last frames: who has them may close at once, and that is a success."""
        self._channel.is_terminal = True
        stream.close()
        lifecycle.complete(stream.result.reason, texts)
        keeper.complete(None if question.stored is None else question.stored())
