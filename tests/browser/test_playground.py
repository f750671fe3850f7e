"""The playground's page, with /v1 answered by the test: what streams and errors may do to it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from accounts import services
from accounts.scopes import Scope
from tests.browser.conftest import DESKTOP, PHONE, serious_faults
from tests.browser.test_console import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
MODELS = {
    "object": "list",
    "data": [
        {"id": "coming", "state": "loading"},
        {
            "id": "small",
            "state": "ready",
            "input_modalities": ["text", "image"],
            "capabilities": ["completion"],
        },
        {"id": "vectors", "state": "ready", "capabilities": ["embedding"]},
    ],
}
# The smallest PNG there is.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def token(data: bytes, chance: float) -> dict[str, Any]:
    one = {"token": data.decode(errors="replace"), "logprob": math.log(chance), "bytes": list(data)}
    return {**one, "top_logprobs": [one]}


def chunk(
    tokens: list[dict[str, Any]] | None = None, finish: str | None = None, **delta: Any
) -> dict[str, Any]:
    logprobs = {"content": tokens} if tokens else None
    return {"choices": [{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}]}


def stream(*chunks: Any, is_whole: bool = True) -> str:
    lines = [json.dumps(one, ensure_ascii=False) for one in chunks] + ["[DONE]"] * is_whole
    return ": keep-alive\n\n" + "".join(f"data: {line}\n\n" for line in lines)


class Service:
    """Answers /v1 as the test says; notes what it was asked."""

    def __init__(self, page: Any) -> None:
        self.bodies: list[Any] = []
        self.shown: list[str] = []
        self.answer: dict[str, Any] = {}
        self.models = MODELS
        page.route("**/v1/models", lambda route: route.fulfill(json=self.models))
        page.route("**/v1/chat/completions", self._chat)

    def _chat(self, route: Any) -> None:
        self.bodies.append(route.request.post_data_json)
        self.shown.append(route.request.headers["authorization"])
        route.fulfill(**self.answer)

    def streams(self, *chunks: Any, is_whole: bool = True) -> None:
        headers = {
            "content-type": "text/event-stream",
            "x-request-id": "b0b5e0de-0000-4000-8000-000000000001",
        }
        self.answer = {"status": 200, "headers": headers, "body": stream(*chunks, is_whole=is_whole)}


def ask(page: Any, text: str) -> Any:
    """Sends it; the answer, which has ended."""
    page.fill("#message", text)
    page.click("#send")
    turn = page.locator(".turn").last
    turn.locator(".told").wait_for()
    return turn


def test_streams_and_errors_are_shown_as_they_are(ann, watched) -> None:
    services.api_key_create(user=ann, name="mine")
    page = signed_in(watched(), "ann")
    service = Service(page)
    page.goto("/console/playground/")
    page.wait_for_selector("#model:not([disabled])")
    assert page.locator("#model option").all_inner_texts() == ["coming (loading)", "small"]
    assert page.input_value("#model") == "small"

    # Half characters, markup, thinking, a call in pieces, what a policy put in, usage.
    smile = "🙂".encode()
    parts = [token(b"<img src=x>", 0.95), token(smile[:2], 0.5), token(smile[2:], 0.5), token(b"rare", 0.01)]
    call = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"city": '}}
    service.streams(
        chunk(role="assistant", content=""),
        chunk([token(b"Hm.", 0.7)], reasoning_content="Hm."),
        chunk(parts, content="<img src=x>🙂rare"),
        chunk(content="shown by a policy"),
        chunk(tool_calls=[call]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '"<b>Rome</b>"}'}}]),
        chunk(finish="tool_calls"),
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        },
    )
    turn = ask(page, "Hello 🙂")
    assert service.shown[0].startswith("Bearer sk-skippy-pass-")
    assert service.bodies[0]["messages"] == [{"role": "user", "content": "Hello 🙂"}]
    text = turn.locator(".body > .said")
    assert text.inner_text() == "<img src=x>🙂rareshown by a policy"
    assert text.locator(".token").all_inner_texts() == ["<img src=x>", "🙂", "rare"]
    assert [one.get_attribute("title") for one in text.locator(".token").all()] == [
        "p = 0.95",
        "p = 0.25",
        "p = 0.01",
    ]
    assert text.locator(".shade-4").inner_text() == "rare"
    assert page.locator("main img, main b").count() == 0
    assert turn.locator(".thinking .said").inner_text() == "Hm."
    assert "9 tokens, 4 cached" in turn.inner_text() and "5 tokens, 1 thinking" in turn.inner_text()
    assert "<b>Rome</b>" in turn.locator(".call pre").inner_text()
    service.streams(chunk(content="Fine."), chunk(finish="stop"))
    turn.locator(".call textarea").fill('{"sky": "blue"}')
    page.fill("[name=seed]", "none")
    turn.get_by_role("button", name="Give this result").click()
    assert "whole number" in page.inner_text("#problem") and page.locator(".turn").count() == 2
    page.fill("[name=seed]", "")
    turn.get_by_role("button", name="Give this result").click()
    page.wait_for_selector(".turn:nth-child(4) .told")
    said, result = service.bodies[1]["messages"][1:]
    assert (said["reasoning_content"], said["tool_calls"][0]["function"]["arguments"]) == (
        "Hm.",
        '{"city": "<b>Rome</b>"}',
    )
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "blue"}'}

    # Errors before, within and instead of an end.
    error = {"message": "Too many requests.", "type": "x", "param": None, "code": "rate_limit_exceeded"}
    service.answer = {"status": 429, "headers": {"retry-after": "7"}, "json": {"error": error}}
    told = ask(page, "again").inner_text()
    assert "429 rate_limit_exceeded" in told and "Too many requests." in told and "Retry-After: 7 s" in told
    service.streams(
        chunk(content="Well"), {"error": {**error, "message": "It broke.", "code": "generation_failed"}}
    )
    told = ask(page, "again").inner_text()
    assert "Well" in told and "generation_failed" in told and "It broke." in told
    service.streams(chunk(content="Half"), is_whole=False)
    assert "The answer broke off" in ask(page, "again").inner_text()
    service.answer = {"status": 502, "body": "<html>bad gateway"}
    assert "502" in ask(page, "again").inner_text()
    # Of what failed with nothing said, nothing is sent again.
    assert [one["role"] for one in service.bodies[-1]["messages"][-5:]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]

    # Turns are edited, asked again and deleted.
    service.streams(chunk(content="Yes."), chunk(finish="stop"))
    first = page.locator(".turn").first
    first.get_by_role("button", name="Edit").click()
    first.locator(".editing textarea").fill("Changed")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelectorAll('.turn').length === 2")
    page.wait_for_selector(".turn:nth-child(2) .told")
    assert service.bodies[-1]["messages"] == [{"role": "user", "content": "Changed"}]
    page.locator(".turn").last.get_by_role("button", name="Regenerate").click()
    page.wait_for_selector(".turn:nth-child(2) .told")
    assert service.bodies[-1] == service.bodies[-2]
    # While a field is wrong nothing can be asked, and so nothing is taken out, nor of what this tab keeps.
    page.fill("[name=seed]", "none")
    num_asked = len(service.bodies)
    page.locator(".turn").last.get_by_role("button", name="Regenerate").click()
    assert "whole number" in page.inner_text("#problem")
    first.get_by_role("button", name="Edit").click()
    first.get_by_role("button", name="Save and send from here").click()
    assert page.evaluate("document.activeElement.name") == "seed"
    kept = json.loads(page.evaluate("sessionStorage.getItem('skippy.playground')"))["turns"]
    assert [one["content"] for one in kept] == ["Changed", "Yes."]
    assert page.locator(".turn").count() == 2 and len(service.bodies) == num_asked
    page.fill("[name=seed]", "")
    page.locator(".turn").last.get_by_role("button", name="Delete").click()
    assert page.locator(".turn").count() == 1

    # A picture goes along as a data URL.
    page.set_input_files("#picture", {"name": "dot.png", "mimeType": "image/png", "buffer": PNG})
    page.wait_for_selector("#attached img")
    ask(page, "What is this?")
    assert service.bodies[-1]["messages"][-1]["content"][0]["image_url"]["url"].startswith(
        "data:image/png;base64,iVBOR"
    )

    # Wrong settings are told beside the message, which stays.
    for name, wrong, told in (
        ("temperature", "warm", "no number"),
        ("seed", "9007199254740993", "whole number"),
        ("stop", "a\nb\nc\nd\ne", "at most 4"),
        ("tools", "{", "no JSON"),
    ):
        page.fill(f"[name={name}]", wrong)
        page.fill("#message", "still here")
        page.click("#send")
        assert told in page.inner_text("#problem"), name
        assert page.input_value("#message") == "still here"
        assert page.evaluate("document.activeElement.name") == name
        page.fill(f"[name={name}]", "")


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_without_a_key_and_with_one_that_is_pasted(ann, watched, shot, size, scheme) -> None:
    services.api_key_create(user=ann, name="reads only", scopes=frozenset({Scope.USAGE}))
    page = signed_in(watched(size=size, scheme=scheme), "ann")
    service = Service(page)
    service.models = {"object": "list", "data": []}
    page.goto("/console/playground/")
    assert "Another key" in page.locator("#key option:checked").inner_text()
    assert page.locator("#key option[disabled]").inner_text().endswith("may not generate")
    assert "Choose a key" in page.inner_text("#model-note")
    page.fill("#message", "x")
    page.click("#send")
    assert "Choose a key first" in page.inner_text("#problem")
    page.get_by_label("The key").fill(" sk-skippy-pasted ")
    page.keyboard.press("Tab")
    page.wait_for_function("document.getElementById('model-note').textContent.includes('no model')")
    shot(page, f"playground-empty-{scheme}")
    assert serious_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    service.models = MODELS
    page.click("#refresh")
    page.wait_for_selector("#model:not([disabled])")
    service.streams(chunk(content="Hi."), chunk(finish="stop"))
    ask(page, "Hello")
    assert service.shown == ["Bearer sk-skippy-pasted"]
    assert "sk-skippy-pasted" not in page.evaluate(
        "JSON.stringify(sessionStorage) + JSON.stringify(localStorage)"
    )
    assert serious_faults(page) == []
