"""Every error of the tree in Anthropic's words, which its own client understands."""

from __future__ import annotations

import orjson
import pytest
from anthropic.types import ErrorResponse

from accounts.keys import mint
from inference.anthropic.errors import ANTHROPIC, dialect_of
from inference.domain import errors
from inference.domain.errors import SkippyError
from inference.openai.dialect import OPENAI

TREE: list[tuple[type[SkippyError], int, str]] = [
    (errors.InvalidRequest, 400, "invalid_request_error"),
    (errors.UnsupportedParameter, 400, "invalid_request_error"),
    (errors.ContextLengthExceeded, 400, "invalid_request_error"),
    (errors.AuthenticationFailed, 401, "authentication_error"),
    (errors.PermissionDenied, 403, "permission_error"),
    (errors.NotFound, 404, "not_found_error"),
    (errors.ModelNotFound, 404, "not_found_error"),
    (errors.MethodNotAllowed, 405, "invalid_request_error"),
    (errors.RequestTimeout, 408, "timeout_error"),
    (errors.Conflict, 409, "invalid_request_error"),
    (errors.PayloadTooLarge, 413, "request_too_large"),
    (errors.RateLimitExceeded, 429, "rate_limit_error"),
    (errors.InsufficientQuota, 429, "rate_limit_error"),
    (errors.ServerOverloaded, 529, "overloaded_error"),
    (errors.RequestCancelled, 499, "api_error"),
    (errors.InternalError, 500, "api_error"),
    (errors.GenerationFailed, 502, "api_error"),
    (errors.ServiceUnavailable, 503, "api_error"),
    (errors.GenerationTimeout, 504, "timeout_error"),
]


@pytest.mark.parametrize(("kind", "status", "name"), TREE, ids=str)
def test_each_error_has_its_status_and_type(kind: type[SkippyError], status: int, name: str) -> None:
    answer = ANTHROPIC.error_response(kind("What is wrong."), request_id="r1")

    assert answer.status == status
    body = orjson.loads(answer.body)
    assert body == {
        "type": "error",
        "error": {"type": name, "message": "What is wrong."},
        "request_id": "r1",
    }
    if name != "request_too_large":  # documented, and yet not among the client's types
        ErrorResponse.model_validate(body, strict=True)
    event = ANTHROPIC.error_event(kind("What is wrong."), request_id="r1")
    assert event == b"event: error\ndata: " + answer.body + b"\n\n"


def test_headers_are_kept() -> None:
    busy = dict(
        ANTHROPIC.error_response(errors.ServerOverloaded("", retry_after_s=7), request_id="r").headers
    )
    assert (busy[b"retry-after"], busy[b"request-id"]) == (b"7", b"r")
    spent = dict(
        ANTHROPIC.error_response(errors.InsufficientQuota("", should_retry=False), request_id="r").headers
    )
    assert spent[b"x-should-retry"] == b"false"
    wrong = ANTHROPIC.error_response(errors.MethodNotAllowed(""), request_id="r", allow=("POST",))
    assert dict(wrong.headers)[b"allow"] == b"POST"


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/messages/", "/v1/messages/count_tokens", "/v1/messages/no/such"]
)
def test_anthropics_paths(path: str) -> None:
    assert dialect_of(path) is ANTHROPIC


@pytest.mark.parametrize(
    "path", ["", "/", "/v1", "/v1/message", "/v1/messagesx", "/v1/chat/completions", "*"]
)
def test_all_others_are_openais(path: str) -> None:
    assert dialect_of(path) is OPENAI


def test_a_key_that_was_sent_where_none_belongs_is_not_repeated() -> None:
    key = mint().plaintext
    error = errors.InvalidRequest(f"There is no model '{key}'.")
    assert key.encode() not in ANTHROPIC.error_response(error, request_id="r").body
    assert key.encode() not in ANTHROPIC.error_event(error, request_id="r")
