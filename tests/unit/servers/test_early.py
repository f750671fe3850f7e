from __future__ import annotations

import pytest

from accounts.keys import mint
from skippy_site.servers.contract import ListenConfig
from skippy_site.servers.early import EarlyRules, RequestHead, origin_form, target_path

RULES = EarlyRules(ListenConfig(max_body_bytes=100))
GOOD = b"Bearer " + mint().plaintext.encode()


def status(
    target: bytes,
    *,
    method: bytes = b"POST",
    length: int | None = 0,
    keys: tuple[bytes, ...] = (),
    api_keys: tuple[bytes, ...] = (),
    is_draining: bool = False,
) -> int | None:
    error = RULES.refuse(RequestHead(method, target, length, keys, api_keys), is_draining=is_draining)
    return None if error is None else error.status


def test_a_credential_is_asked_for_under_v1_alone() -> None:
    assert status(b"/v1/models") == 401
    assert status(b"/v1") == 401
    assert status(b"/v1/models", keys=(b"Bearer nonsense",)) == 401
    assert status(b"/v1/models", keys=(GOOD, GOOD)) == 401
    assert status(b"/v1/models", keys=(GOOD,)) is None
    assert status(b"/v1/models", method=b"OPTIONS") is None
    for target in (b"/", b"/v1x", b"/api/v1/", b"/healthz"):
        assert status(target) is None


def test_the_key_may_be_in_x_api_key() -> None:
    key = GOOD.removeprefix(b"Bearer ")
    assert status(b"/v1/messages", api_keys=(key,)) is None
    assert status(b"/v1/models", api_keys=(key,), keys=(GOOD,)) is None
    assert status(b"/v1/messages", api_keys=(key, key)) == 401
    assert status(b"/v1/messages", api_keys=(b"nonsense",)) == 401
    assert status(b"/v1/messages", api_keys=(mint().plaintext.encode(),), keys=(GOOD,)) == 401


def test_the_body_limit_holds_everywhere() -> None:
    for target in (b"/v1/models", b"/admin/"):
        assert status(target, length=101, keys=(GOOD,)) == 413
        assert status(target, length=100, keys=(GOOD,)) is None
        assert status(target, length=None, keys=(GOOD,)) is None
    assert status(b"/v1/models", method=b"OPTIONS", length=101) == 413


def test_a_drain_lets_only_probes_in() -> None:
    assert status(b"/v1/models", keys=(GOOD,), is_draining=True) == 503
    assert status(b"/admin/", is_draining=True) == 503
    assert status(b"/healthz?verbose=1", is_draining=True) is None
    assert status(b"/readyz", is_draining=True) is None


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/v1/models?x=/y", "/v1/models"),
        (b"/%76%31/models", "/v1/models"),
        (b"http://host:80/v1/models?a", "/v1/models"),
        (b"HTTPS://host", "/"),
        (b"http://host?a=b", "/"),
        (b"/%ff", "/\ufffd"),
        (b"*", "*"),
    ],
)
def test_the_path_of_a_target(target: bytes, path: str) -> None:
    assert target_path(target) == path


def test_the_origin_form_keeps_the_query() -> None:
    assert origin_form(b"http://host/a?b=c") == b"/a?b=c"
    assert origin_form(b"http://host?b=c") == b"/?b=c"
    assert origin_form(b"/a?u=http://x") == b"/a?u=http://x"
