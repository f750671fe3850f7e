"""Runs the application for one request, and makes sure that the client hears of its end.

Left alone, uvicorn answers a failure in plain text and Daphne in HTML up to a second later; Daphne
leaves the client waiting for ever when an application returns without an answer. Here each request
ends in exactly one of: a complete answer, an error object, or a connection that is visibly cut.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from inference.domain.errors import InternalError, ServiceUnavailable, SkippyError
from skippy_site.servers.contract import Application, Message, Scope
from skippy_site.servers.cross_origin import NOBODY, CrossOriginPolicy, header_values
from skippy_site.servers.refusal import refusal, send_response

_log = logging.getLogger(__name__)


class Exchange(Protocol):
    """One request and its answer, as a server adapter implements it.

    `send` waits while the client reads too slowly, and does nothing once the client is gone;
    `receive` then gives `http.disconnect`, however often it is called.
    """

    @property
    def is_started(self) -> bool:
        """Whether a status line was sent."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer was sent to its end."""

    @property
    def is_gone(self) -> bool:
        """Whether the client has left."""

    async def receive(self) -> Message: ...

    async def send(self, message: Message) -> None: ...

    def break_off(self) -> None:
        """Close the connection after what was sent, without the mark of a complete answer."""


async def run_application(
    application: Application, scope: Scope, exchange: Exchange, cross_origin: CrossOriginPolicy = NOBODY
) -> None:
    """One request, from scope to end. Is cancelled only when the server stops."""
    try:
        await application(scope, exchange.receive, exchange.send)
    except asyncio.CancelledError:
        await _conclude(scope, exchange, cross_origin, ServiceUnavailable("The service is stopping."))
    except Exception:
        _log.exception("the application failed on %.200r", scope.get("path"))
        await _conclude(scope, exchange, cross_origin, InternalError("The server had an internal error."))
    else:
        if not exchange.is_complete and not exchange.is_gone:
            _log.error("the application gave no complete answer on %.200r", scope.get("path"))
            await _conclude(scope, exchange, cross_origin, InternalError("The server had an internal error."))


async def _conclude(
    scope: Scope, exchange: Exchange, cross_origin: CrossOriginPolicy, error: SkippyError
) -> None:
    if exchange.is_complete or exchange.is_gone:
        return
    if exchange.is_started:
        exchange.break_off()
        return
    path = scope.get("path", "")
    answer = refusal(
        error,
        path=path,
        incoming_id=next(iter(header_values(scope, b"x-request-id")), None),
        cross_origin=cross_origin.answer_headers(path, header_values(scope, b"origin")),
    )
    await send_response(exchange.send, answer)
