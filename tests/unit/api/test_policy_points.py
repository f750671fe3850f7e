"""A request's way through its points, seen from its client: what is asked when, and what is out by then."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from accounts.contracts import KeyLookup, KeyState
from hooks.contracts.actions import CallWebhook, CapsuleMarker, InjectText
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall
from inference.domain.errors import GenerationFailed
from tests.asgi import Exchange
from tests.hook_parts import ScriptedWebhooks, desk_of, policy
from tests.scripted_hooks import ScriptedDesk, ScriptedExchange
from tests.unit.api.conftest import KEY, PRINCIPAL, Site
from tests.unit.api.test_policies import (
    CHAT,
    LOST,
    MESSAGES,
    NONCE,
    UNSURE,
    WIRES,
    Wire,
    denying,
    saying,
    with_policies,
)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_each_point_has_its_turn_once(site: Site, wire: Wire, is_stream: bool) -> None:
    """The engine hears of the request behind the first two, which see what the first one made of it."""
    asked: list[tuple[HookPoint, int]] = []
    seen: dict[HookPoint, str] = {}

    async def note(call: WebhookCall) -> WebhookAnswer:
        asked.append((call.point, len(site.engine.handles)))
        seen[call.point] = "".join([str(prompt) for prompt in call.request.prompts]) or "".join(
            [message.text for message in call.request.messages]
        )
        return WebhookAnswer()

    site.runtime.hook_desk = desk = desk_of(
        policy(HookPoint.BEFORE, InjectText("oh "), CapsuleMarker("c-1")),
        *[policy(point, CallWebhook(1), held_chars=1000) for point in HookPoint],
        webhooks=ScriptedWebhooks({1: note}),
    )
    site.engine.play = lambda handle: (
        handle.start().signal(UNSURE, "a").say("b").signal(LOST, "c").say("d").finish()
    )
    answer = await site.post(wire.path, wire.body(stream=is_stream))
    assert answer.status == 200
    assert await desk.drain(5.0) == 0

    assert asked == [
        (HookPoint.BEFORE, 0),
        (HookPoint.EFFECTIVE, 0),
        (HookPoint.AFTER_PREFILL, 1),
        (HookPoint.MID_GENERATION, 1),
        (HookPoint.OUTPUT, 1),
        (HookPoint.TERMINAL, 1),
    ]
    assert seen == {point: "hi" if point is HookPoint.BEFORE else "oh hi" for point in HookPoint}
    assert ("x-capsule-id" in answer.headers) is not is_stream


class Told(ScriptedExchange):
    """Knows what its client had when its end was told."""

    def __init__(self) -> None:
        super().__init__()
        self.client: Exchange | None = None
        self.had: list[tuple[int | None, bytes]] = []

    def conclude(self, outcome: TerminalOutcome) -> None:
        assert self.client is not None
        self.had.append((self.client.status, self.client.body))
        super().conclude(outcome)


@pytest.mark.parametrize(
    ("kind", "is_stream"), [("success", False), ("error", False), ("stream_completed", True), ("error", True)]
)
async def test_the_end_is_told_before_the_client_has_it(site: Site, kind: str, is_stream: bool) -> None:
    exchange = Told()
    site.runtime.hook_desk = ScriptedDesk(exchange)
    if kind == "error":
        site.engine.play = lambda handle: handle.start().say("ok").fail(GenerationFailed("broken"))
    else:
        site.engine.play = saying("ok")
    exchange.client = client = site.open(CHAT.path, CHAT.body(stream=is_stream))
    await client.answer()

    assert [one.kind for one in exchange.outcomes] == [kind]
    ((status, body),) = exchange.had
    assert status == (200 if is_stream else None)
    said_last = b"broken" if kind == "error" else b"stop"
    assert said_last in client.body
    assert said_last not in body


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_request_that_the_engine_does_not_take_has_failed(site: Site, is_stream: bool) -> None:
    exchange = with_policies(site)
    site.engine.refuse(GenerationFailed("broken"))
    answer = await site.post(CHAT.path, CHAT.body(stream=is_stream))
    assert answer.status == 502
    assert exchange.outcomes == [TerminalOutcome("error", 502, "broken")]


# -- the names of an exchange ---------------------------------------------------------------------


def _refuse(site: Site) -> None:
    site.engine.refuse(GenerationFailed("no"))


def _deny(site: Site) -> None:
    with_policies(site).change = denying()


def _forget_keys(site: Site) -> None:
    site.keys.clear()


@pytest.mark.parametrize("wire", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    ("arrange", "fields", "status"),
    [
        (_refuse, {}, 502),
        (_refuse, {"stream": True}, 502),
        (_deny, {}, 403),
        (_forget_keys, {}, 401),
        (_refuse, {"model": "none"}, 404),
        (_refuse, {"model": 7}, 400),
    ],
)
async def test_a_refusal_tells_the_clients_nonce_or_a_new_one(
    site: Site, wire: Wire, arrange: Any, fields: dict[str, Any], status: int
) -> None:
    arrange(site)
    answer = await site.post(wire.path, wire.body(**fields), **{"x-capsule-client-nonce": NONCE})
    assert (answer.status, answer.headers["x-capsule-client-nonce"]) == (status, NONCE)
    assert not {"x-capsule-id", "x-capsule-nonce-origin"} & answer.headers.keys()
    minted = await site.post(wire.path, wire.body(**fields), **{"x-capsule-client-nonce": "mine"})
    assert UUID(minted.headers["x-capsule-client-nonce"]).version == 4
    assert minted.headers["x-capsule-nonce-origin"] == "frontend"
    silent = await site.post(wire.path, wire.body(**fields), **{"x-capsule-nonce-origin": "client"})
    assert not any(name.startswith("x-capsule") for name in silent.headers)


@pytest.mark.parametrize("wire", [CHAT, MESSAGES])
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"model": 7}])
async def test_every_answer_has_the_requests_id(site: Site, wire: Wire, fields: dict[str, Any]) -> None:
    site.engine.play = saying("ok")
    given = "6f1c6a2c-8a0f-4f2e-9a59-6d8f1d2f9f11"
    kept = await site.post(wire.path, wire.body(**fields), **{"x-request-id": given.upper()})
    assert kept.headers["x-request-id"] == given
    made = await site.post(wire.path, wire.body(**fields), **{"x-request-id": "mine"})
    assert UUID(made.headers["x-request-id"]).version == 4


# -- what is kept, and repeated -------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_what_is_kept_is_what_was_sent_and_a_repetition_is_not_asked_about(
    site: Site, fields: dict[str, Any]
) -> None:
    desk = site.runtime.hook_desk = ScriptedDesk(ScriptedExchange())
    desk.exchange.change = lambda view: replace(view, parameters={"max_tokens": 7})
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
    site.engine.play = saying("ok")
    headers = {"idempotency-key": "one", "x-capsule-client-nonce": NONCE}
    first = await site.post(CHAT.path, CHAT.body(max_tokens=50, **fields), **headers)
    again = await site.post(CHAT.path, CHAT.body(max_tokens=50, **fields), **headers)

    assert (first.status, again.status) == (200, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-capsule-client-nonce"] == NONCE
    assert site.engine.handles[0].request.max_tokens == 7
    (text,) = site.kept.texts
    assert json.loads(text.request)["max_tokens"] == 50
    assert len(desk.opened) == len(desk.exchange.outcomes) == 1
