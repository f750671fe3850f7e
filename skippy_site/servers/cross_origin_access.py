"""The application as a browser on another site may call it: preflights answered, each answer's head told so.

Starlette's CORSMiddleware would do most of it, but leaves Vary out of answers to requests without an Origin,
opens all paths alike, and sees none of what the servers refuse themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable

from skippy_site.servers.contract import Application, Message, Receive, Scope, Send
from skippy_site.servers.cross_origin import CrossOriginPolicy, header_values
from skippy_site.servers.refusal import send_response


class CrossOriginAccess:
    """ASGI middleware. Nothing of an answer waits for it."""

    def __init__(self, application: Application, policy: CrossOriginPolicy) -> None:
        self._application = application
        self._policy = policy

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return self._application(scope, receive, send)
        preflight = self._policy.preflight(scope)
        if preflight is not None:
            return send_response(send, preflight)
        extra = self._policy.answer_headers(scope["path"], header_values(scope, b"origin"))
        if not extra:
            return self._application(scope, receive, send)

        # No coroutine of its own: this is called for each part of a stream.
        def send_with(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            return send(message)

        return self._application(scope, receive, send_with)


def with_cross_origin(application: Application, policy: CrossOriginPolicy) -> Application:
    """The application as `policy` opens it: itself, where that opens it to nobody."""
    return CrossOriginAccess(application, policy) if policy.is_used else application
