from __future__ import annotations

import json

import pytest

from accounts.keys import mint
from inference.domain import errors
from inference.domain.errors import AuthenticationFailed, MethodNotAllowed, ServerOverloaded, SkippyError
from inference.openai.errors import error_response
from tests.unit.openai.test_rendering import validator

ALL = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SkippyError)]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_is_openais_object(kind: type[SkippyError]) -> None:
    response = error_response(kind("It\nfailed.", param="messages"))
    value = json.loads(response.body)
    validator("ErrorResponse").validate(value)
    assert value["error"]["message"] == "It\nfailed."
    assert value["error"]["param"] == "messages"
    headers = dict(response.headers)
    assert response.status == kind.status
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == str(len(response.body)).encode()
    assert (b"retry-after" in headers) is (kind.status in (429, 503))


def test_headers_that_tell_a_client_what_to_do_next() -> None:
    waiting = dict(error_response(ServerOverloaded("x", retry_after_s=7, should_retry=False)).headers)
    assert (waiting[b"retry-after"], waiting[b"x-should-retry"]) == (b"7", b"false")
    assert dict(error_response(AuthenticationFailed("x")).headers)[b"www-authenticate"] == b"Bearer"
    allowed = dict(error_response(MethodNotAllowed("x"), allow=("GET", "HEAD")).headers)
    assert allowed[b"allow"] == b"GET, HEAD"


def test_no_error_repeats_a_key():
    key = mint().plaintext

    told = error_response(errors.InvalidRequest(f"There is no {key}.", param=key)).body.decode()

    assert key[:16] in told and key[16:-4] not in told
