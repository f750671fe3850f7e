"""What every door under /v1 shares: one request, one answer, one error shape, whatever happens.

Channels awaits a handler before it reads the next message, so an answer that ran inside the
handler would never hear of a disconnect. The answer therefore runs as a task of its own, and
`http.disconnect` cancels it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

from channels.consumer import AsyncConsumer

from accounts.contracts import Principal
from accounts.limits.contracts import LimitDesk
from accounts.scopes import Scope
from inference.anthropic.errors import dialect_of
from inference.api.authentication import Authenticator
from inference.api.http import HttpRequest, HttpResponder
from inference.domain.errors import (
    InternalError,
    MethodNotAllowed,
    PayloadTooLarge,
    PermissionDenied,
    SkippyError,
)
from inference.domain.request_context import current_request_id
from inference.openai.errors import Header
from inference.openai.rate_limit_headers import rate_limit_headers
from inference.openai.request_ids import HEADER, request_id
from inference.services.limit_gate import LimitGate

_log = logging.getLogger(__name__)


class ApiConsumer(AsyncConsumer):  # type: ignore[misc]
    """One HTTP request under /v1. Subclasses name their methods and write `answer`.

    Order: method, authentication, network, scope (before the body is gathered), body limit, `answer`.
    Every SkippyError becomes the error object; every other exception is logged under the request's
    id and becomes a 500 that says nothing.
    """

    methods: ClassVar[tuple[str, ...]] = ("GET",)
    needs_key: ClassVar[bool] = True
    needs_scope: ClassVar[Scope | None] = None

    def __init__(self, *, authenticator: Authenticator, limit_desk: LimitDesk, max_body_bytes: int) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._limit_desk = limit_desk
        self._max_body_bytes = max_body_bytes
        self._parts: list[bytes] = []
        self._num_body_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._listening: asyncio.Future[None] | None = None
        self._request: HttpRequest | None = None
        self.principal: Principal | None = None
        self.limit_gate: LimitGate | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.respond = HttpResponder(send, request_id(_header(scope, HEADER)), dialect_of(scope["path"]))
        current_request_id.set(self.respond.request_id)
        self.scope = scope
        listening = asyncio.ensure_future(self._listen(receive))
        self._listening = listening
        try:
            await asyncio.wait([listening])
        finally:
            # The server cancels this coroutine where its patience ends; the answer goes with it.
            listening.cancel()
            await self._cancel_answer()
            # A task that was cancelled keeps where it stood, and with it this, its request and its model's
            # lease: in a circle they would all wait for the collector.
            self._task = self._listening = None
        if not listening.cancelled():
            listening.result()

    async def _listen(self, receive: Any) -> None:
        """Channels' own pump makes a task for each message and visits the database's thread with it, for
        the sake of a channel layer and connections that nothing here has."""
        while True:
            message = await receive()
            if message["type"] == "http.request":
                await self.http_request(message)
            elif message["type"] == "http.disconnect":
                self.client_left()
                await self._cancel_answer()
                return

    async def http_request(self, message: dict[str, Any]) -> None:
        if self._task is not None:
            return
        try:
            if self._request is None:
                await self._admit()
                self.authenticated()
                await self._check_limits()
                self._authorize()
            self._gather(message.get("body", b""))
        except SkippyError as error:
            self._start(self.refuse(error))
            return
        except Exception:
            _log.exception("request %s failed before its body was read", self.respond.request_id)
            self._start(self.refuse(InternalError("The server had an internal error.")))
            return
        if not message.get("more_body", False):
            self._start(self.run())

    def authenticated(self) -> None:
        """Called once when `principal` is known and the body is still to come."""

    def client_left(self) -> None:
        """The client has closed its connection; the answer, if one has begun, is cancelled next."""

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        """Answer through `self.respond`. May be cancelled at any await when the client leaves."""
        raise NotImplementedError

    async def _admit(self) -> None:
        method = self.scope["method"]
        self._request = HttpRequest.from_scope(self.scope)
        if method not in self.methods and not (method == "HEAD" and "GET" in self.methods):
            raise MethodNotAllowed(
                f"{method} is not allowed for {self._request.shown_path}; use {' or '.join(self.methods)}."
            )
        if self.needs_key:
            self.principal = await self._authenticator.authenticate(self.scope["headers"])

    def _authorize(self) -> None:
        """After `authenticated`: a refusal for want of a scope is recorded like any other."""
        if self.needs_scope is None or (self.principal and self.needs_scope in self.principal.scopes):
            return
        raise PermissionDenied(f"This needs an API key with the scope `{self.needs_scope.value}`.")

    async def _check_limits(self) -> None:
        """From here on every answer tells what is left. Raises PermissionDenied for a client whose
        network is none of the key's."""
        if self.principal is None:
            return
        self.limit_gate = LimitGate(self._limit_desk, self.principal)
        self.respond.limit_headers = self._limit_headers
        await self.limit_gate.look()
        client = self.scope.get("client")
        self.limit_gate.check_address(client[0] if client else None)

    def _limit_headers(self) -> tuple[Header, ...]:
        allowance = None if self.limit_gate is None else self.limit_gate.allowance
        if allowance is None:
            return ()
        return tuple(
            header
            for name, quota in (("requests", allowance.requests), ("tokens", allowance.tokens))
            for header in rate_limit_headers(
                name, limit=quota.limit, remaining=quota.remaining, reset_s=quota.reset_s
            )
        )

    def _gather(self, part: bytes) -> None:
        self._num_body_bytes += len(part)
        if self._num_body_bytes > self._max_body_bytes:
            raise PayloadTooLarge(f"The request body is larger than {self._max_body_bytes} bytes.")
        if part:
            self._parts.append(part)

    async def run(self) -> None:
        """The answer and what is said where it fails."""
        assert self._request is not None
        request, self._parts = self._request.with_body(b"".join(self._parts)), []
        try:
            await self.answer(request, self.principal)
        except SkippyError as error:
            await self.refuse(error)
        except Exception:
            _log.exception("request %s failed", self.respond.request_id)
            await self.refuse(InternalError("The server had an internal error."))

    async def refuse(self, error: SkippyError) -> None:
        await self.respond.error(error, allow=self.methods, headers=self.exchange_headers())

    def exchange_headers(self) -> tuple[Header, ...]:
        """What tells of the exchange whatever comes of it: on refusals and repetitions, too."""
        return ()

    def _start(self, answer: Any) -> None:
        self._task = asyncio.ensure_future(answer)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """The answer is out (or failed): nothing that the client may still send is of interest."""
        if self._listening is not None:
            self._listening.cancel()
        if not task.cancelled() and task.exception() is not None:
            _log.error("answering %s failed", self.respond.request_id, exc_info=task.exception())

    async def _cancel_answer(self) -> None:
        task = self._task
        if task is None or task.done():
            return
        task.cancel()
        await asyncio.wait([task])


def _header(scope: dict[str, Any], name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)
