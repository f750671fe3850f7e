"""Turns an error of the tree into Anthropic's error object, on the paths where its clients call.

    SkippyError                        status  type
    InvalidRequest and below           400     invalid_request_error
    AuthenticationFailed               401     authentication_error
    PermissionDenied                   403     permission_error
    PolicyDenied                       4xx     by its status as Anthropic has it, else permission_error
    NotFound, ModelNotFound            404     not_found_error
    MethodNotAllowed                   405     invalid_request_error
    RequestTimeout                     408     timeout_error
    Conflict                           409     invalid_request_error
    PayloadTooLarge                    413     request_too_large
    RateLimitExceeded, InsufficientQuota 429   rate_limit_error
    ServerOverloaded                   529     overloaded_error
    GenerationTimeout                  504     timeout_error
    everything else                    as it is, api_error

Statuses and types are those of Anthropic's documentation ("Errors"). An overloaded service is 529 here and
429 in the record and on OpenAI's paths; Retry-After is the same on both.
"""

from __future__ import annotations

import orjson

from accounts.keys import without_keys
from inference.domain import errors
from inference.domain.errors import SkippyError
from inference.openai.dialect import OPENAI, Dialect
from inference.openai.errors import WireResponse, error_headers

OVERLOADED_STATUS = 529
THREAD_UNSUPPORTED = "thread_unsupported_request"

_TYPES: tuple[tuple[type[SkippyError], str], ...] = (
    (errors.AuthenticationFailed, "authentication_error"),
    (errors.PermissionDenied, "permission_error"),
    (errors.NotFound, "not_found_error"),
    (errors.PayloadTooLarge, "request_too_large"),
    (errors.RequestTimeout, "timeout_error"),
    (errors.GenerationTimeout, "timeout_error"),
    (errors.ServerOverloaded, "overloaded_error"),
    (errors.RateLimitExceeded, "rate_limit_error"),
    (errors.InsufficientQuota, "rate_limit_error"),
    (errors.InvalidRequest, "invalid_request_error"),
    (errors.MethodNotAllowed, "invalid_request_error"),
    (errors.Conflict, "invalid_request_error"),
)


# What a policy answers with is Anthropic's kind of that status.
_POLICY_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def error_type(error: SkippyError) -> str:
    """Anthropic's name for the kind of error."""
    if isinstance(error, errors.PolicyDenied):
        return _POLICY_TYPES.get(error.status, "permission_error")
    return next((name for kind, name in _TYPES if isinstance(error, kind)), "api_error")


def error_object(error: SkippyError, *, request_id: str) -> dict[str, object]:
    """`{type: "error", error: {type, message}, request_id}`; messages name the field at fault. `details` are
    there where Anthropic has a code for what is wrong, which its clients act upon."""
    told: dict[str, object] = {"type": error_type(error), "message": without_keys(error.message)}
    if error.code == THREAD_UNSUPPORTED:
        told["details"] = {"error_code": error.code}
    return {"type": "error", "error": told, "request_id": request_id}


class AnthropicDialect:
    """Anthropic's; nothing follows an error in a stream."""

    def error_response(
        self, error: SkippyError, *, request_id: str, allow: tuple[str, ...] = ()
    ) -> WireResponse:
        body = orjson.dumps(error_object(error, request_id=request_id))
        status = OVERLOADED_STATUS if isinstance(error, errors.ServerOverloaded) else error.status
        return WireResponse(
            status,
            # Under this name Anthropic's clients look for the id.
            (*error_headers(error, body, allow=allow), (b"request-id", request_id.encode())),
            body,
        )

    def error_event(self, error: SkippyError, *, request_id: str) -> bytes:
        return b"event: error\ndata: " + orjson.dumps(error_object(error, request_id=request_id)) + b"\n\n"


ANTHROPIC = AnthropicDialect()
_ROOT = "/v1/messages"


def dialect_of(path: str) -> Dialect:
    """The wire that a path (decoded, without its query) speaks: Anthropic's at and below /v1/messages,
    known paths or not; OpenAI's everywhere else."""
    return ANTHROPIC if path == _ROOT or path.startswith(_ROOT + "/") else OPENAI
