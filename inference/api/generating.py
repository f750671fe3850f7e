"""What the generating doors share: one lifecycle, one record, streamed or whole.

A door differs from another only in how it reads its body and how it writes its answer.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, ClassVar

from accounts.contracts import Principal
from accounts.scopes import Scope
from inference.api.answer_keeper import AnswerKeeper
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from inference.api.question import FrameWriter, Question, Rendering
from inference.domain.admission_events import FrameKind, ReceiverOutcome
from inference.domain.errors import GenerationTimeout, ServiceUnavailable, SkippyError
from inference.domain.kept_answers import NamedRequest, SentAnswer
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import Answer, AnswerPart, ContentDelta, MessageBuilder, MessageDelta
from inference.domain.phases import ResponseBuilt
from inference.domain.priority import PriorityClass
from inference.openai.idempotency_keys import body_digest, idempotency_name
from inference.openai.protocol import OutputRequest
from inference.openai.session_ids import has_header, session_id
from inference.openai.sse import CONTENT_TYPE as STREAM_TYPE
from inference.runtime import Runtime
from inference.services.caller import Caller
from inference.services.generation_stream import GenerationStream
from inference.services.limit_gate import LimitGate
from inference.streaming.event_channel import EventChannel, ReceiverLost
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle
from inference.streaming.sessions import session_key

# Under this name the server adapters offer the client's socket (skippy_site/servers/contract.py).
CONNECTION_EXTENSION = "skippy.connection"
WRITER_EXTENSION = "skippy.writer"
# A named request whose end nobody has noted is taken for dead so long after its time limit.
LEASE_MARGIN_S = 60.0
MAX_LEASE_S = 86_400.0


class GeneratingConsumer(ApiConsumer):
    """POST only. Every request that passed authentication leaves one record, however it ends."""

    methods = ("POST",)
    needs_scope = Scope.INFERENCE
    endpoint: ClassVar[str]

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime
        self._channel: EventChannel
        self._lifecycle: RequestLifecycle | None = None

    async def read(self, request: HttpRequest) -> OutputRequest:
        """Validate the body."""
        raise NotImplementedError

    def question(self, request: Any) -> Question:
        """How the answer to what `read` gave is written."""
        raise NotImplementedError

    async def start(self, request: Any, caller: Caller, lifecycle: RequestLifecycle) -> GenerationStream:
        """Wait until the request has its lane."""
        raise NotImplementedError

    def keeps_text(self, request: Any, principal: Principal) -> bool:
        """Whether what is asked and answered is kept; only a key that keeps text may say so."""
        return principal.keeps_text

    # -- from the first byte to the record --------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        extensions = scope.get("extensions", {})
        connection = extensions.get(CONNECTION_EXTENSION)
        self._channel = EventChannel(
            send,
            stall_limit_s=self._runtime.settings.time_limits.send_s,
            abort=connection.abort if connection is not None else lambda: None,
            writer=extensions.get(WRITER_EXTENSION),
        )
        try:
            await super().__call__(scope, receive, self._channel.send)
        finally:
            self._conclude()

    def authenticated(self) -> None:
        principal = self.principal
        assert principal is not None
        lifecycle = self._runtime.lifecycle(
            RequestIdentity(
                request_id=self.respond.request_id,
                endpoint=self.endpoint,
                user_id=principal.user_id,
                username=principal.username,
                key_id=principal.key_id,
                key_name=principal.key_name,
                team_id=principal.team_id,
                team_name=principal.team_name,
                priority=PriorityClass(principal.priority.value),
            )
        )
        lifecycle.open()
        self._lifecycle = lifecycle

    def client_left(self) -> None:
        self._channel.drop()

    async def run(self) -> None:
        try:
            async with self._channel:
                try:
                    await super().run()
                except asyncio.CancelledError:
                    if self._channel.loss is None and self.respond.is_begun:
                        # The server stops, and its client still listens.
                        if self._lifecycle is not None:
                            self._lifecycle.cancel()
                            await self._lifecycle.recorded()
                        await self.respond.error(ServiceUnavailable("The service is stopping."))
                    raise
        except ReceiverLost:
            pass

    async def refuse(self, error: SkippyError) -> None:
        if self._lifecycle is not None:
            self._lifecycle.fail(error)
            if self.respond.is_begun:
                await self._lifecycle.recorded()
        await super().refuse(error)

    def _conclude(self) -> None:
        """The one place where a request ends that was neither answered nor refused."""
        lifecycle, loss = self._lifecycle, self._channel.loss
        if lifecycle is None:
            return
        is_reader = self.respond.is_begun or loss is ReceiverOutcome.STALLED
        if loss is not None and is_reader and not self.respond.is_delivered:
            kind = FrameKind.TERMINAL if self._channel.is_terminal else FrameKind.IN_FLIGHT
            lifecycle.lose(loss, frame_kind=kind, stall_limit_s=self._channel.stall_limit_s)
        elif loss is not None:
            lifecycle.disconnect()
        else:
            lifecycle.cancel()

    # -- the answer -------------------------------------------------------------------------------

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        lifecycle = self._lifecycle
        assert principal is not None and lifecycle is not None and self.limit_gate is not None
        async with lifecycle.interruption:
            await self._answer(request, principal, lifecycle, self.limit_gate)

    async def _answer(
        self, request: HttpRequest, principal: Principal, lifecycle: RequestLifecycle, limit_gate: LimitGate
    ) -> None:
        asked = await self.read(request)
        lifecycle.note_request(
            model=asked.model,
            is_stream=asked.is_stream,
            end_user=asked.user or "",
            metadata=asked.metadata,
        )
        limit_s = self._runtime.settings.time_limits.of_request(asked.timeout_s)
        keeper = self._make_keeper(request, asked, principal, lifecycle, limit_s=limit_s)
        earlier = await keeper.begin()
        if earlier is not None:
            await self._repeat(earlier, lifecycle)
            return
        try:
            async with asyncio.timeout(limit_s) as time_limit:
                caller = self._caller(principal, lifecycle)
                lifecycle.when_ended(limit_gate.close)
                self._runtime.check_ready()
                # What the key may not use does not exist for it.
                self._runtime.catalog.model(asked.model, may_use=principal.limits.allows_model)
                await limit_gate.check_spent()
                await self._generate(asked, caller, lifecycle, keeper)
        except TimeoutError:
            if not time_limit.expired():
                raise
            raise GenerationTimeout(f"The request took longer than its {limit_s:g} s.") from None
        finally:
            await asyncio.shield(keeper.end())

    def _make_keeper(
        self,
        request: HttpRequest,
        asked: OutputRequest,
        principal: Principal,
        lifecycle: RequestLifecycle,
        *,
        limit_s: float | None,
    ) -> AnswerKeeper:
        """Raises InvalidRequest where the request's Idempotency-Key is none."""
        name = idempotency_name(self.scope["headers"])
        named = None
        if name is not None:
            named = NamedRequest(
                key_id=principal.key_id,
                name_digest=name,
                body_digest=body_digest(self.endpoint, request.body),
                request_id=self.respond.request_id,
                record_id=lifecycle.record_id,
                created_at=lifecycle.created_at,
                lease_s=MAX_LEASE_S if limit_s is None else limit_s + LEASE_MARGIN_S,
            )
        return AnswerKeeper(
            self._runtime.answer_keeping,
            named=named,
            principal=principal,
            keeps_text=self.keeps_text(asked, principal),
            lifecycle=lifecycle,
            body=request.body,
        )

    async def _repeat(self, earlier: SentAnswer, lifecycle: RequestLifecycle) -> None:
        lifecycle.repeat()
        await lifecycle.recorded()
        headers = (
            (b"content-type", earlier.content_type.encode()),
            (b"content-length", str(len(earlier.body)).encode()),
            (b"idempotent-replayed", b"true"),
        )
        await self.respond.whole(earlier.status, headers, earlier.body)

    def _caller(self, principal: Principal, lifecycle: RequestLifecycle) -> Caller:
        """Who asks, and in which session: only a name in the configured header counts, and only from
        those who were given session trust."""
        header, headers = self._runtime.settings.session_header.encode(), self.scope["headers"]
        named = session_id(headers, header) if principal.has_session_trust else None
        session = None if named is None else session_key(user_id=principal.user_id, session_id=named)
        is_ignored = not principal.has_session_trust and has_header(headers, header)
        lifecycle.note_session(session, is_ignored=is_ignored)
        return Caller(
            user_id=principal.user_id,
            priority=PriorityClass(principal.priority.value),
            session=session,
            limit_gate=self.limit_gate,
        )

    async def _generate(
        self, asked: OutputRequest, caller: Caller, lifecycle: RequestLifecycle, keeper: AnswerKeeper
    ) -> None:
        question = self.question(asked)
        if question.rendering.error_event is not None:
            self.respond.error_event = question.rendering.error_event
        if asked.is_stream:
            self._keep_alive(question)
        stream = await self.start(asked, caller, lifecycle)
        try:
            if asked.is_stream:
                await self._stream(question, stream, lifecycle, keeper)
            else:
                await self._whole(question, stream, lifecycle, keeper)
        finally:
            stream.close()

    def _keep_alive(self, question: Question) -> None:
        """Headers go out early where the wait is long, and comments while nothing else does."""
        limits = self._runtime.settings.time_limits
        say = partial(self.respond.comment, headers=question.headers)
        self._channel.keep_alive(say, first_s=limits.early_headers_s, every_s=limits.keep_alive_s)

    async def _stream(
        self,
        question: Question,
        stream: GenerationStream,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        rendering = question.rendering
        if not self.respond.is_begun:
            await self.respond.begin_stream(headers=question.headers)
        first = rendering.begin(stream.usage_so_far)
        if first:
            keeper.add(first)
            await self.respond.frame(first)
        if not keeper.is_keeping:
            stream.write_at_once(FrameWriter(rendering, self._channel))
        async for part in stream.parts():
            frames = _frames(rendering, part)
            keeper.add(frames, *part.deltas)
            if frames:
                await self.respond.frame(frames)
        result, began_ts = stream.result, time.monotonic()
        last, conclusion = rendering.end(result), rendering.conclude()
        self._note_built(lifecycle, began_ts, num_bytes=len(last), is_stream=True)
        keeper.add(last + conclusion)
        self._complete(question, stream, lifecycle, keeper)
        # What the client needs is there at once; only the last word says that it is also recorded.
        await self.respond.frame(last)
        await lifecycle.recorded()
        await keeper.end(STREAM_TYPE.decode())
        await self.respond.end_stream(conclusion)

    async def _whole(
        self,
        question: Question,
        stream: GenerationStream,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        deltas: list[MessageDelta] = []
        tokens: list[ScoredToken] = []
        async for part in stream.parts():
            deltas += part.deltas
            tokens += part.tokens
        result, began_ts = stream.result, time.monotonic()
        message = MessageBuilder(deltas).message()
        body = question.rendering.whole(Answer(message, tuple(tokens), tuple(deltas)), result)
        self._note_built(lifecycle, began_ts, num_bytes=len(body), is_stream=False)
        keeper.add(body, *deltas)
        self._complete(question, stream, lifecycle, keeper)
        await lifecycle.recorded()
        await keeper.end("application/json")
        await self.respond.json(body, headers=question.headers)

    def _note_built(
        self, lifecycle: RequestLifecycle, began_ts: float, *, num_bytes: int, is_stream: bool
    ) -> None:
        elapsed_s = time.monotonic() - began_ts
        lifecycle.note_phase(ResponseBuilt(lifecycle.identity.request_id, elapsed_s, num_bytes, is_stream))

    def _complete(
        self, question: Question, stream: GenerationStream, lifecycle: RequestLifecycle, keeper: AnswerKeeper
    ) -> None:
        """Before the last frames: who has them may close at once, and that is a success."""
        self._channel.is_terminal = True
        stream.close()
        lifecycle.complete(stream.result.reason)
        keeper.complete(None if question.stored is None else question.stored())


def _frames(rendering: Rendering, part: AnswerPart) -> bytes:
    """The part's tokens go out with its first delta; without one, with text that is empty so far."""
    first, *others = part.deltas or (ContentDelta(""),)
    return rendering.delta(first, part.tokens) + b"".join([rendering.delta(delta) for delta in others])
