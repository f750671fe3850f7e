"""What the doors share whose requests are recorded: one lifecycle, one reservation of limits, one record.

What they answer with differs: a stream of text, or a body of numbers. How a request begins, how it is
counted and in which of many ways it may end does not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Protocol

from accounts.contracts import Principal
from accounts.scopes import Scope
from inference.api.answer_keeper import AnswerKeeper
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest, ignored_headers
from inference.domain.admission_events import FrameKind, ReceiverOutcome
from inference.domain.errors import GenerationTimeout, ServiceUnavailable, SkippyError
from inference.domain.kept_answers import NamedRequest, SentAnswer
from inference.domain.phases import ResponseBuilt
from inference.domain.priority import PriorityClass
from inference.hooking.request_hooks import RequestHooks
from inference.openai.idempotency_keys import body_digest, idempotency_name
from inference.openai.session_ids import has_header, session_id
from inference.runtime import Runtime
from inference.services.caller import Caller
from inference.services.limit_gate import LimitGate
from inference.services.model_catalog import ServedModel
from inference.streaming.event_channel import EventChannel, ReceiverLost
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle
from inference.streaming.sessions import session_key

ErrorEvent = Callable[[SkippyError], bytes]
# Under this name the server adapters offer the client's socket (skippy_site/servers/contract.py).
CONNECTION_EXTENSION = "skippy.connection"
WRITER_EXTENSION = "skippy.writer"
# A named request whose end nobody has noted is taken for dead so long after its time limit.
LEASE_MARGIN_S = 60.0
MAX_LEASE_S = 86_400.0


class AskedRequest(Protocol):
    """What every validated request has that is recorded."""

    @property
    def model(self) -> str: ...

    @property
    def is_stream(self) -> bool: ...

    @property
    def user(self) -> str | None: ...

    @property
    def metadata(self) -> Mapping[str, str] | None: ...

    @property
    def timeout_s(self) -> float | None: ...

    @property
    def ignored_parameters(self) -> tuple[str, ...]: ...


class RecordedConsumer(ApiConsumer):
    """POST only. Every request that passed authentication leaves one record, however it ends. Subclasses
    `read` and `serve`."""

    methods = ("POST",)
    needs_scope = Scope.INFERENCE
    endpoint: ClassVar[str]

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime
        self._channel: EventChannel
        self._lifecycle: RequestLifecycle | None = None

    async def read(self, request: HttpRequest) -> AskedRequest:
        """Validate the body."""
        raise NotImplementedError

    async def serve(
        self,
        asked: Any,
        model: ServedModel,
        caller: Caller,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        """Answer what `read` gave, and complete the lifecycle before the last byte."""
        raise NotImplementedError

    def early_error_event(self) -> ErrorEvent | None:
        """How a stream tells that it fails while it still waits for its model; None: as its wire always
        does."""
        return None

    async def ask_policies(
        self, asked: Any, principal: Principal, lifecycle: RequestLifecycle
    ) -> tuple[Any, RequestHooks | None]:
        """What `read` gave as policies leave it, and those that go on with it; for endpoints where there are
        some. Raises PolicyDenied and ServiceUnavailable."""
        return asked, None

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
                is_in_playground=principal.is_in_playground,
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
            model=self._runtime.fleet.id_of(asked.model, principal),
            is_stream=asked.is_stream,
            end_user=asked.user or "",
            metadata=asked.metadata,
        )
        self._runtime.maintenance.check(
            request_id=self.respond.request_id, user_id=principal.user_id, key_id=principal.key_id
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
                self._runtime.fleet.find(asked.model, principal)
                if asked.is_stream:
                    self.respond.error_event = self.early_error_event() or self.respond.error_event
                    self._keep_alive(asked)
                asked, hooks = await self.ask_policies(asked, principal, lifecycle)
                await limit_gate.check_spent()
                lease = await self._runtime.lease(asked.model, principal, timeout_s=asked.timeout_s)
                with lease:
                    caller = replace(caller, waited_s=lease.waited_s, hooks=hooks)
                    await self.serve(asked, lease.model, caller, lifecycle, keeper)
        except TimeoutError:
            if not time_limit.expired():
                raise
            raise GenerationTimeout(f"The request took longer than its {limit_s:g} s.") from None
        finally:
            await asyncio.shield(keeper.end())

    def _make_keeper(
        self,
        request: HttpRequest,
        asked: AskedRequest,
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
            *self.exchange_headers(),
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

    def _note_built(
        self, lifecycle: RequestLifecycle, began_ts: float, *, num_bytes: int, is_stream: bool
    ) -> None:
        elapsed_s = time.monotonic() - began_ts
        lifecycle.note_phase(ResponseBuilt(lifecycle.identity.request_id, elapsed_s, num_bytes, is_stream))

    def _keep_alive(self, asked: AskedRequest) -> None:
        """Headers go out early where the wait is long, and comments while nothing else does."""
        limits = self._runtime.settings.time_limits
        headers = (*ignored_headers(asked.ignored_parameters), *self.exchange_headers())
        say = partial(self.respond.comment, headers=headers)
        self._channel.keep_alive(say, first_s=limits.early_headers_s, every_s=limits.keep_alive_s)
