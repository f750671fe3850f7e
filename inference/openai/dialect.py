"""How errors are told differs between the wires that are spoken under /v1."""

from __future__ import annotations

from typing import Protocol

from inference.domain.errors import SkippyError
from inference.openai.errors import WireResponse, error_response
from inference.openai.sse import DONE, error_frame


class Dialect(Protocol):
    """One wire. `request_id` is the answer's x-request-id, for wires that repeat it in their bodies."""

    def error_response(
        self, error: SkippyError, *, request_id: str, allow: tuple[str, ...] = ()
    ) -> WireResponse:
        """The whole answer for `error`. `allow` names the methods that a 405 offers instead."""
        ...

    def error_event(self, error: SkippyError, *, request_id: str) -> bytes:
        """A failure after a stream's headers have gone out, and whatever else ends a stream."""
        ...


class OpenAIDialect:
    """OpenAI's."""

    def error_response(
        self, error: SkippyError, *, request_id: str, allow: tuple[str, ...] = ()
    ) -> WireResponse:
        return error_response(error, allow=allow)

    def error_event(self, error: SkippyError, *, request_id: str) -> bytes:
        return error_frame(error) + DONE


OPENAI = OpenAIDialect()
