from __future__ import annotations

from typing import Any

import pytest

from skippy_site.servers.cross_origin import MAX_ASKED_HEADERS, NOBODY, CrossOriginPolicy

APP = b"https://app.example:8443"
LISTED = CrossOriginPolicy(["https://app.example:8443", "tauri://localhost"], request_headers=["X-Session"])
ALL = CrossOriginPolicy(["*"])
VARY = (b"vary", b"Origin")


def scope(*headers: tuple[bytes, bytes], method: str = "OPTIONS", path: str = "/v1/models") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "headers": list(headers)}


def asking(origin: bytes, *headers: tuple[bytes, bytes], **rest: str) -> dict[str, Any]:
    return scope((b"origin", origin), (b"access-control-request-method", b"POST"), *headers, **rest)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://app.example", b"https://app.example"),
        ("HTTPS://App.Example", b"https://app.example"),
        ("https://app.example:443", b"https://app.example"),
        ("http://app.example:80", b"http://app.example"),
        ("http://app.example:443", b"http://app.example:443"),
        ("http://[::1]:3000", b"http://[::1]:3000"),
        ("chrome-extension://abcdefgh", b"chrome-extension://abcdefgh"),
    ],
)
def test_an_origin_is_what_browsers_send(written: str, sent: bytes) -> None:
    told = CrossOriginPolicy([written]).answer_headers("/v1", [sent])
    assert told[:2] == (VARY, (b"access-control-allow-origin", sent))


@pytest.mark.parametrize(
    "origin",
    [
        "app.example",
        "https://",
        "https://app.example/",
        "https://app.example/chat",
        "https://*.example",
        "https://user@app.example",
        "https://app.example:0",
        "https://app.example:65536",
        "https://app.example:",
        "https://app.example?x",
        "https://\u00e4pp.example",
        "https://app.example\nX: y",
        "null",
        "NULL",
        "",
        "**",
    ],
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError) as problem:
        CrossOriginPolicy([origin])
    assert "\n" not in str(problem.value)


def test_all_stands_alone() -> None:
    for wrong in (["*", "https://app.example"], ["*", "*"]):
        with pytest.raises(ValueError, match="nothing can be beside it"):
            CrossOriginPolicy(wrong)


@pytest.mark.parametrize(
    "origins",
    [[], [b"null"], [b"https://app.example"], [b"http://app.example:8443"], [APP + b"/"], [APP, APP], [b""]],
)
def test_who_is_not_listed_is_told_nothing_but_that_it_depends(origins: list[bytes]) -> None:
    assert LISTED.answer_headers("/v1/models", origins) == (VARY,)
    assert LISTED.preflight(asking(b", ".join(origins))) is None


def test_all_may_be_everybody_but_not_a_sandbox() -> None:
    for origins in ([], [b"https://any.example"]):
        told = dict(ALL.answer_headers("/api/keys", origins))
        assert told[b"access-control-allow-origin"] == b"*" and b"vary" not in told
    assert ALL.answer_headers("/api/keys", [b"null"]) == (VARY,)
    assert ALL.preflight(asking(b"null")) is None


@pytest.mark.parametrize(
    "path", ["/", "/console/", "/admin/", "/metrics", "/healthz", "/v1x", "/apis", "/x/v1"]
)
def test_nothing_but_the_apis_is_opened(path: str) -> None:
    for policy in (LISTED, ALL):
        assert policy.answer_headers(path, [APP]) == ()
        assert policy.preflight(asking(APP, path=path)) is None


def test_without_origins_nothing_is_said() -> None:
    assert not NOBODY.is_used
    assert NOBODY.answer_headers("/v1", [APP]) == ()
    assert NOBODY.preflight(asking(APP)) is None


def test_a_preflight_allows_what_the_clients_send() -> None:
    asked = b"Authorization, content-type,x-stainless-os , X-Stainless-New-Thing, x-evil, x-stainless-\xff"
    answer = LISTED.preflight(asking(APP, (b"access-control-request-headers", asked)))
    assert answer is not None and answer.status == 204 and answer.body == b""
    told = dict(answer.headers)
    allowed = told[b"access-control-allow-headers"].decode().split(", ")
    for name in (
        "authorization",
        "x-api-key",
        "anthropic-version",
        "idempotency-key",
        "content-type",
        "x-session",
    ):
        assert name in allowed
    assert allowed[-2:] == ["x-stainless-os", "x-stainless-new-thing"]
    assert told[b"access-control-allow-origin"] == APP
    assert b"Origin" in told[b"vary"]
    assert {b"DELETE", b"PATCH"} <= set(told[b"access-control-allow-methods"].split(b", "))
    assert b"access-control-allow-credentials" not in told
    assert not any(b"private-network" in name for name, _ in answer.headers)


def test_a_preflight_cannot_be_made_to_say_much() -> None:
    asked = b",".join(b"x-stainless-%d" % number for number in range(5000))
    answer = LISTED.preflight(asking(APP, (b"access-control-request-headers", asked)))
    assert answer is not None
    assert dict(answer.headers)[b"access-control-allow-headers"].count(b"x-stainless") == MAX_ASKED_HEADERS


def test_options_that_is_no_preflight_is_the_application_s() -> None:
    assert LISTED.preflight(scope((b"origin", APP))) is None
    assert LISTED.preflight(asking(APP, method="POST")) is None
