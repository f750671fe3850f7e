"""Policies at the doors of all wires, around a scripted engine and with scripted policies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from accounts.contracts import KeyLimits, KeyLookup, KeyState, Limits
from hooks.contracts.actions import StopReason
from hooks.contracts.decisions import GenerationVerdict, HookDenied, HookFailed
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowRule, WindowSignals
from hooks.contracts.view import HookCaller, RequestView, TextPart
from inference.domain.backend import HoldReason
from inference.domain.errors import GenerationFailed, RequestCancelled
from inference.domain.events import Signals, TokenBatch
from inference.domain.injection import InjectionRefusal
from inference.domain.outcomes import Outcome
from inference.domain.phases import PoliciesAsked
from inference.domain.signals import SignalRequest, SignalRule, SignalWindow, TokenSignal
from tests.asgi import Exchange
from tests.scripted_engine import ScriptedHandle
from tests.scripted_hooks import ScriptedDesk, ScriptedExchange
from tests.unit.api.conftest import KEY, PRINCIPAL, Site
from tests.unit.api.test_tool_calls import TEMPLATE, TOOLS, call

UNSURE = TokenSignal(entropy=5.0, margin=0.1)
LOST = SignalWindow(
    num_tokens=16,
    mean_entropy=4.5,
    max_entropy=5.0,
    mean_margin=0.2,
    min_margin=0.1,
    num_high_entropy=14,
    num_repetitions=0,
)
DEFAULT_RULE = SignalRule()


@dataclass(frozen=True)
class Wire:
    """One of the four, and how to read it."""

    path: str
    endpoint: str
    fields: dict[str, Any]
    text: Callable[[Any], str]
    ended: Callable[[Any], Any]
    refusal: Callable[[Any], str]
    usage: Callable[[Any], Any]

    def body(self, **fields: Any) -> bytes:
        return json.dumps({"model": "scripted", **self.fields, **fields}).encode()


def _message_text(answer: Any) -> str:
    return "".join([block["text"] for block in answer["content"]])


def _response_text(answer: Any) -> str:
    return "".join([part["text"] for item in answer["output"] for part in item["content"]])


def _usage(answer: Any) -> Any:
    return answer["usage"]


HI = [{"role": "user", "content": "hi"}]
CHAT = Wire(
    "/v1/chat/completions",
    "chat.completions",
    {"messages": HI},
    lambda answer: answer["choices"][0]["message"]["content"],
    lambda answer: answer["choices"][0]["finish_reason"],
    lambda answer: answer["error"]["message"],
    _usage,
)
COMPLETIONS = Wire(
    "/v1/completions",
    "completions",
    {"prompt": "hi", "max_tokens": 50},
    lambda answer: answer["choices"][0]["text"],
    lambda answer: answer["choices"][0]["finish_reason"],
    lambda answer: answer["error"]["message"],
    _usage,
)
RESPONSES = Wire(
    "/v1/responses",
    "responses",
    {"input": "hi"},
    _response_text,
    lambda answer: (answer["incomplete_details"] or {"reason": answer["status"]})["reason"],
    lambda answer: answer["error"]["message"],
    _usage,
)
MESSAGES = Wire(
    "/v1/messages",
    "messages",
    {"messages": HI, "max_tokens": 50},
    _message_text,
    lambda answer: answer["stop_reason"],
    lambda answer: answer["error"]["message"],
    _usage,
)
WIRES = [pytest.param(wire, id=wire.endpoint) for wire in (CHAT, COMPLETIONS, RESPONSES, MESSAGES)]


def with_policies(site: Site, **options: Any) -> ScriptedExchange:
    exchange = ScriptedExchange(**options)
    site.runtime.hook_desk = ScriptedDesk(exchange)
    return exchange


def saying(text: str) -> Callable[[ScriptedHandle], object]:
    return lambda handle: handle.start().say(text).finish()


def prompt_of(site: Site) -> bytes:
    return bytes(one for one in site.engine.handles[0].request.prompt_token_ids if one < 256)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5.0):
        while not condition():
            await asyncio.sleep(0.001)


def denying(message: str = "Not here.", *, status: int = 403, code: str = "permission_denied") -> Any:
    def deny(_: object) -> Any:
        raise HookDenied(message, status=status, code=code, policy="careful")

    return deny


def failing(_: object) -> Any:
    raise HookFailed("careful")


# -- before the generation ------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
async def test_a_denied_request_costs_nothing_and_is_on_record(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    exchange.decided("deny")
    exchange.change = denying(status=451, code="not_for_you")
    answer = await site.post(wire.path, wire.body())

    assert answer.status == 451
    assert wire.refusal(answer.json()) == "Not here."
    if wire is not MESSAGES:
        assert answer.json()["error"]["code"] == "not_for_you"
    else:
        assert answer.json()["error"]["type"] == "permission_error"
    assert answer.headers["x-should-retry"] == "false"
    assert site.engine.handles == []
    (record,) = site.records
    assert (record.outcome, record.error_code, record.status) == (Outcome.REJECTED, "permission_denied", 451)
    (decision,) = record.hook_decisions
    assert (decision.policy, decision.point, decision.actions) == (
        "careful", "before_chat_completion", ("deny",),
    )  # fmt: skip
    assert exchange.outcomes == [TerminalOutcome("denied", 451, "Not here.")]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 499])
async def test_a_policy_may_deny_with_any_status_and_it_is_its_refusal(site: Site, wire: Wire, status: int):
    exchange = with_policies(site)
    exchange.change = denying(status=status)
    answer = await site.post(wire.path, wire.body(stream=True))
    assert answer.status == status
    assert site.records[0].outcome is Outcome.REJECTED
    assert [one.kind for one in exchange.outcomes] == ["denied"]


async def test_odd_denials_are_errors_that_clients_can_read(site: Site) -> None:
    exchange = with_policies(site)
    exchange.change = denying("half \ud800", status=200, code="")
    answer = await site.post(CHAT.path, CHAT.body())
    assert (answer.status, answer.json()["error"]["message"]) == (403, "half ?")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_policy_that_cannot_be_asked_refuses_for_now(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    exchange.change = failing
    answer = await site.post(wire.path, wire.body())
    assert answer.status == 503
    assert answer.headers["retry-after"]
    assert site.engine.handles == []
    (outcome,) = exchange.outcomes
    assert (outcome.kind, outcome.status) == ("error", 503)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_effective_request_is_the_one_that_is_served(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    site.engine.play = saying("ok")

    def change(view: RequestView) -> RequestView:
        if view.prompts:
            view = replace(view, prompts=("changed",))
        else:
            message = replace(view.messages[-1], parts=(TextPart("changed"),))
            view = replace(view, messages=(*view.messages[:-1], message))
        return replace(view, parameters={**view.parameters, "max_tokens": 7, "temperature": 0.25})

    exchange.change = change
    answer = await site.post(wire.path, wire.body(temperature=1, model="scripted@main"))
    assert answer.status == 200
    assert b"changed" in prompt_of(site)
    assert b"hi" not in prompt_of(site)
    asked = site.engine.handles[0].request
    assert (asked.max_tokens, asked.sampling.temperature) == (7, 0.25)
    if wire is RESPONSES:
        assert (answer.json()["max_output_tokens"], answer.json()["temperature"]) == (7, 0.25)
    (view,) = exchange.views
    assert (view.endpoint, view.model) == (wire.endpoint, "scripted@main")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_wrong_parameter_is_the_policys_failure_and_no_400(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    exchange.change = lambda view: replace(view, parameters={"temperature": 99})
    answer = await site.post(wire.path, wire.body())
    assert answer.status == 503
    assert [one.kind for one in exchange.outcomes] == ["error"]


@pytest.mark.parametrize("wire", WIRES)
async def test_the_desk_hears_who_asks_and_whether_he_opts_in(site: Site, wire: Wire) -> None:
    desk = ScriptedDesk()
    site.runtime.hook_desk = desk
    site.engine.play = saying("ok")
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, team_id=3, team_name="t"))
    request_id = "6f1c6a2c-8a0f-4f2e-9a59-6d8f1d2f9f11"
    answer = await site.post(wire.path, wire.body(skippy_hooks=True), **{"x-request-id": request_id})
    await site.post(wire.path, wire.body(mesh_hooks="true"))
    assert answer.status == 200
    assert "x-ignored-parameters" not in answer.headers
    caller = HookCaller(1, "ada", 7, "test", 3, "t")
    assert desk.opened[0] == (caller, "scripted", wire.endpoint, True, request_id)
    assert desk.opened[1][3] is False
    assert [record.hook_decisions for record in site.records] == [(), ()]
    assert site.engine.handles[0].request.signals is None


async def test_policies_are_asked_before_limits_and_hear_of_their_refusal(site: Site) -> None:
    exchange = with_policies(site)
    limits = KeyLimits(Limits(max_requests_per_minute=1))
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, limits=limits))
    site.engine.play = saying("ok")
    assert (await site.post(CHAT.path, CHAT.body())).status == 200
    assert (await site.post(CHAT.path, CHAT.body())).status == 429
    assert [one.kind for one in exchange.outcomes] == ["success", "error"]
    exchange.change = denying()
    assert (await site.post(CHAT.path, CHAT.body())).status == 403


async def test_what_is_not_valid_or_not_theirs_is_no_policys_business(site: Site) -> None:
    desk = ScriptedDesk(ScriptedExchange())
    site.runtime.hook_desk = desk
    assert (await site.post(CHAT.path, b"{}")).status == 400
    assert (await site.post(CHAT.path, CHAT.body(model="nope"))).status == 404
    assert desk.opened == []


# -- tags and capsules ----------------------------------------------------------------------------


async def test_tags_are_on_the_record_and_no_client_can_say_them(site: Site) -> None:
    exchange = with_policies(site)
    exchange.tags = {"risk": "high"}
    site.engine.play = saying("ok")
    metadata = {"policy:risk": "low", "policy:more": "x", "own": "y"}
    await site.post(CHAT.path, CHAT.body(metadata=metadata))
    site.runtime.hook_desk = None
    await site.post(CHAT.path, CHAT.body(metadata=metadata))
    assert site.records[0].metadata == {"policy:risk": "high", "own": "y"}
    assert site.records[1].metadata == {"own": "y"}


NONCE = "0c3a5c34-9b0c-4b5e-8a3f-5d9f0a1b2c3d"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_marker_is_on_whole_answers_and_not_on_streams(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    exchange.capsule = ("capsule-1", None)
    site.engine.play = saying("ok")
    whole = await site.post(wire.path, wire.body(), **{"x-capsule-client-nonce": NONCE})
    assert whole.headers["x-capsule-id"] == "capsule-1"
    assert whole.headers["x-capsule-client-nonce"] == NONCE
    assert "x-capsule-nonce-origin" not in whole.headers
    stream = await site.post(wire.path, wire.body(stream=True), **{"x-capsule-client-nonce": NONCE})
    assert "x-capsule-id" not in stream.headers
    assert stream.headers["x-capsule-client-nonce"] == NONCE
    minted = await site.post(wire.path, wire.body(), **{"x-capsule-nonce-origin": "client"})
    assert UUID(minted.headers["x-capsule-client-nonce"]).version == 4
    assert minted.headers["x-capsule-nonce-origin"] == "frontend"


async def test_an_answer_that_failed_has_no_marker(site: Site) -> None:
    exchange = with_policies(site)
    exchange.capsule = ("capsule-1", None)
    site.engine.play = lambda handle: handle.start().fail(GenerationFailed("no"))
    answer = await site.post(CHAT.path, CHAT.body())
    assert (answer.status, "x-capsule-id" in answer.headers) == (502, False)


# -- in the generation ----------------------------------------------------------------------------


async def test_only_what_policies_look_for_is_measured(site: Site) -> None:
    site.engine.play = saying("ok")
    rule = WindowRule(window_tokens=8, min_decoded=1, every_tokens=4)
    for points, expected in [
        ((HookPoint.BEFORE,), None),
        ((HookPoint.AFTER_PREFILL,), SignalRequest(True, ())),
        (
            (HookPoint.MID_GENERATION,),
            SignalRequest(False, (SignalRule(window_tokens=8, min_decoded=1, every_tokens=4),)),
        ),
    ]:
        exchange = with_policies(site, points=points)
        exchange.window_rules = (rule,)
        await site.post(CHAT.path, CHAT.body())
        assert site.engine.handles[-1].request.signals == expected


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_injected_text_is_not_shown_and_counted_apart(site: Site, wire: Wire, is_stream: bool) -> None:
    exchange = with_policies(site)
    exchange.prefill = exchange.injecting("<|im_end|>!")
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "X").say("ok").finish()
    answer = await site.post(wire.path, wire.body(stream=is_stream))
    assert answer.status == 200
    # Never control tokens: what looks like one is its letters.
    assert site.engine.handles[0].injections == [tuple(b"<|im_end|>!")]
    if not is_stream:
        assert wire.text(answer.json()) == "ok"
        assert wire.usage(answer.json())["injected_tokens"] == 11
    assert b"X" not in answer.body
    assert b"im_end" not in answer.body
    (record,) = site.records
    assert record.usage is not None
    assert (record.usage.completion_tokens, record.usage.injected_tokens) == (2, 11)
    (decision,) = record.hook_decisions
    assert (decision.injected_tokens, decision.discarded_tokens, decision.choice) == (11, 1, 0)
    assert exchange.asked == [(0, FirstTokenSignals(5.0, 0.1))]


@pytest.mark.parametrize("wire", WIRES)
async def test_shown_text_is_content_in_its_place(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    exchange.window = exchange.injecting(" [so] ", "[it] ", is_shown=True)
    site.engine.play = lambda handle: handle.start().say("ab").signal(LOST, "X").say("cd").finish()
    answer = await site.post(wire.path, wire.body())
    assert wire.text(answer.json()) == "ab [so] [it] cd"
    assert wire.usage(answer.json())["injected_tokens"] == 11
    ((_, signals),) = exchange.asked
    assert isinstance(signals, WindowSignals)
    assert (signals.num_high_entropy, signals.num_decoded, signals.rules) == (14, 1, (0,))
    assert [one.discarded_tokens for one in site.records[0].hook_decisions] == [1, 0]


async def test_shown_text_comes_behind_what_was_held_back_and_is_no_stop(site: Site) -> None:
    exchange = with_policies(site)
    exchange.window = exchange.injecting("END?", is_shown=True)
    site.engine.play = lambda handle: handle.start().say("aEN").signal(LOST, "X").say("Db").finish()
    answer = await site.post(CHAT.path, CHAT.body(stop=["END"]))
    assert CHAT.text(answer.json()) == "aENEND?Db"


async def test_shown_text_has_no_logprobs_and_moves_those_behind_it(site: Site) -> None:
    exchange = with_policies(site)
    exchange.window = exchange.injecting("--", is_shown=True)
    site.engine.play = lambda handle: handle.start().say("a").signal(LOST, "X").say("b").finish()
    answer = await site.post(COMPLETIONS.path, COMPLETIONS.body(logprobs=1))
    (choice,) = answer.json()["choices"]
    assert choice["text"] == "a--b"
    assert choice["logprobs"]["tokens"] == ["a", "b"]
    assert choice["logprobs"]["text_offset"] == [0, 3]
    exchange.window = exchange.injecting("--", is_shown=True)
    answer = await site.post(CHAT.path, CHAT.body(logprobs=True))
    (choice,) = answer.json()["choices"]
    assert choice["message"]["content"] == "a--b"
    assert [one["token"] for one in choice["logprobs"]["content"]] == ["a", "b"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("reason", "chat", "responses", "messages"),
    [
        (StopReason.STOP, "stop", "completed", "end_turn"),
        (StopReason.CONTENT_FILTER, "content_filter", "content_filter", "refusal"),
    ],
)
async def test_a_policy_ends_an_answer_as_a_whole_one(  # noqa: PLR0917
    site: Site, wire: Wire, reason: StopReason, chat: str, responses: str, messages: str
) -> None:
    exchange = with_policies(site)
    exchange.window = exchange.injecting(stop=reason)
    site.engine.play = lambda handle: handle.start().say("ab").signal(LOST, "X").say("cd").finish()
    answer = await site.post(wire.path, wire.body())
    expected = {"responses": responses, "messages": messages}.get(wire.endpoint, chat)
    assert (answer.status, wire.text(answer.json()), wire.ended(answer.json())) == (200, "ab", expected)
    assert site.engine.handles[0].is_cancelled
    (record,) = site.records
    assert (record.outcome, record.finish_reason.value) == (Outcome.COMPLETED, reason.value)
    assert [one.kind for one in exchange.outcomes] == ["success"]

    exchange.outcomes.clear()
    stream = await site.post(wire.path, wire.body(stream=True))
    assert expected.encode() in stream.body
    assert b"X" not in stream.body
    assert [one.kind for one in exchange.outcomes] == ["stream_completed"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_policy_answers_instead_of_a_model_that_is_unsure(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    exchange.prefill = exchange.injecting("I am not sure.", "hidden", is_shown=True, stop=StopReason.STOP)
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "Surely").say("!").finish()
    answer = await site.post(wire.path, wire.body())
    assert wire.text(answer.json()) == "I am not sure.hidden"
    assert wire.usage(answer.json())["injected_tokens"] == 20
    assert site.engine.handles[0].injections == []
    assert [one.discarded_tokens for one in site.records[0].hook_decisions] == [1, 0]
    assert exchange.outcomes[0].texts == ("I am not sure.hidden",)


async def test_hidden_text_before_an_end_is_not_put_in(site: Site) -> None:
    exchange = with_policies(site)
    exchange.prefill = exchange.injecting("hidden", stop=StopReason.STOP)
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "X").finish()
    answer = await site.post(CHAT.path, CHAT.body())
    assert CHAT.text(answer.json()) == ""
    assert "injected_tokens" not in answer.json()["usage"]
    assert site.records[0].hook_decisions[0].reason == "ended"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_running_answer_that_is_denied_fails(site: Site, wire: Wire) -> None:
    exchange = with_policies(site)
    exchange.window = denying("Enough.")
    site.engine.play = lambda handle: handle.start().say("ab").signal(LOST, "X").say("zz").finish()
    answer = await site.post(wire.path, wire.body())
    assert (answer.status, wire.refusal(answer.json())) == (403, "Enough.")
    assert site.engine.handles[0].is_cancelled
    stream = await site.post(wire.path, wire.body(stream=True))
    assert stream.status == 200
    assert b"Enough." in stream.body
    assert b"zz" not in stream.body
    assert [record.outcome for record in site.records] == [Outcome.REJECTED] * 2
    assert [record.usage.completion_tokens for record in site.records if record.usage] == [2, 2]
    assert [one.kind for one in exchange.outcomes] == ["denied", "denied"]


async def test_a_policy_that_fails_while_an_answer_runs_ends_it(site: Site) -> None:
    exchange = with_policies(site)
    exchange.prefill = failing
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "X").finish()
    answer = await site.post(CHAT.path, CHAT.body())
    assert answer.status == 503
    assert [one.kind for one in exchange.outcomes] == ["error"]


async def test_an_answer_is_held_while_its_policies_think_and_others_go_on(site: Site) -> None:
    exchange = with_policies(site)
    exchange.gated = frozenset({HookPoint.AFTER_PREFILL})
    exchange.gate.clear()
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "ok").finish()
    asked = site.open(CHAT.path, CHAT.body(stream=True))
    await until(lambda: exchange.num_waiting)
    assert site.engine.handles[0].holds == {HoldReason.HOOK}
    site.runtime.hook_desk = None
    site.engine.play = saying("other")
    assert CHAT.text((await site.post(CHAT.path, CHAT.body())).json()) == "other"
    exchange.gate.set()
    await asked.answer()
    assert site.engine.handles[0].holds == set()
    assert b"ok" in asked.body


# -- what cannot be put in ------------------------------------------------------------------------


async def refused(site: Site, body: bytes, said: str, **options: Any) -> tuple[str, Exchange]:
    """The reason why text was not put in behind what was `said`, and the answer."""
    exchange = with_policies(site)
    exchange.window = exchange.injecting("text", **options)
    half = len(said) // 2
    site.engine.play = lambda handle: (
        handle.start().say(said[:half]).say(said[half:]).signal(LOST, "_").say("!").finish()
    )
    answer = await site.post(CHAT.path, body)
    assert answer.status == 200
    assert site.engine.handles[-1].injections == []
    (decision,) = site.records[-1].hook_decisions
    assert (decision.injected_tokens, decision.discarded_tokens) == (0, 0)
    assert decision.result == "refused"
    return decision.reason, answer


async def test_text_is_not_put_into_structured_output(site: Site) -> None:
    for is_shown in (False, True):
        reason, answer = await refused(
            site, CHAT.body(response_format={"type": "json_object"}), '{"a": 1', is_shown=is_shown
        )
        assert reason == "constraint"
        assert CHAT.text(answer.json()) == '{"a": 1_!'


async def test_text_is_not_put_into_forced_calls(site: Site) -> None:
    reason, _ = await refused(site, CHAT.body(tools=TOOLS, tool_choice="required"), "a")
    assert reason == "constraint"


@pytest.mark.parametrize(
    "said",
    [
        "Well <tool",
        "Well <tool_call>",
        'Well <tool_call>{"name": "get_time", "argu',
        'Well <tool_call>{"name": "get_time", "arguments": {"a": "b',
    ],
)
async def test_text_is_not_put_into_a_call_or_its_marks(site: Site, said: str) -> None:
    site.engine.description = replace(site.engine.description, chat_templates={"default": TEMPLATE})
    made = Site(engine=site.engine)
    await made.runtime.start()
    await until(lambda: made.runtime.state.name == "READY")
    try:
        reason, _ = await refused(made, CHAT.body(tools=TOOLS), said)
        assert reason == "markup"
    finally:
        await made.runtime.stop()


async def test_text_is_put_in_beside_calls_and_into_thinking(site: Site) -> None:
    site.engine.description = replace(site.engine.description, chat_templates={"default": TEMPLATE})
    made = Site(engine=site.engine)
    await made.runtime.start()
    await until(lambda: made.runtime.state.name == "READY")
    try:
        for said in ("Well ", "<think>Hm", "<think>Hm</think>Well", call("get_time", "Rome") + "and "):
            exchange = with_policies(made)
            exchange.window = exchange.injecting("text")
            site.engine.play = lambda handle, said=said: (
                handle.start().say(said).signal(LOST, "_").say("!").finish()
            )
            assert (await made.post(CHAT.path, CHAT.body(tools=TOOLS))).status == 200
            assert site.engine.handles[-1].injections == [tuple(b"text")], said
    finally:
        await made.runtime.stop()


async def test_text_is_not_put_into_a_character(site: Site) -> None:
    exchange = with_policies(site)
    exchange.window = exchange.injecting("text")

    begun, rest = TokenBatch(tuple("€".encode()[:2]), 1002.0), TokenBatch(tuple("€".encode()[2:]), 1002.0)

    def play(handle: ScriptedHandle) -> None:
        handle.start().tell(begun).tell(Signals(LOST, 1, True, 1001.8)).tell(rest).finish()

    site.engine.play = play
    answer = await site.post(CHAT.path, CHAT.body())
    assert CHAT.text(answer.json()) == "€"
    assert site.records[0].hook_decisions[0].reason == "character"


async def test_the_engines_own_refusal_is_on_record_and_the_token_comes(site: Site) -> None:
    exchange = with_policies(site)
    exchange.window = exchange.injecting("text", is_shown=True)

    def play(handle: ScriptedHandle) -> None:
        handle.injection_refusal = InjectionRefusal.NO_ROOM
        handle.start().say("a").signal(LOST, "b").finish()

    site.engine.play = play
    answer = await site.post(CHAT.path, CHAT.body())
    assert CHAT.text(answer.json()) == "ab"
    assert site.records[0].hook_decisions[0].reason == "no_room"


async def test_nothing_is_put_in_behind_the_last_token_or_where_there_is_nothing(site: Site) -> None:
    exchange = with_policies(site)
    exchange.window = exchange.injecting("text")
    exchange.prefill = exchange.injecting("")
    site.engine.play = lambda handle: (
        handle.start().signal(UNSURE, "a").signal(LOST, "b", is_held=False).finish()
    )
    answer = await site.post(CHAT.path, CHAT.body())
    assert CHAT.text(answer.json()) == "ab"
    assert [one.reason for one in site.records[0].hook_decisions] == ["empty", "ended"]


async def test_all_windows_that_are_told_at_a_token_are_asked_about(site: Site) -> None:
    exchange = with_policies(site)
    other = replace(LOST, num_tokens=4, rules=(1,))
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "a", others=(LOST, other)).finish()
    await site.post(CHAT.path, CHAT.body())
    assert [type(signals) for _, signals in exchange.asked] == [
        FirstTokenSignals, WindowSignals, WindowSignals,
    ]  # fmt: skip


# -- several choices ------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [pytest.param(CHAT, id="chat"), pytest.param(COMPLETIONS, id="completions")])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_each_choice_is_asked_about_by_itself(site: Site, wire: Wire, is_stream: bool) -> None:
    exchange = with_policies(site)
    shown = exchange.injecting("shown", is_shown=True)
    stopped = exchange.injecting(stop=StopReason.CONTENT_FILTER)
    exchange.window = lambda choice: (shown if choice else stopped)(choice)
    site.engine.play = lambda handle: handle.start().say("a").signal(LOST, "X").say("b").finish()
    answer = await site.post(wire.path, wire.body(n=2, stream=is_stream))
    assert answer.status == 200
    if is_stream:
        texts, reasons = ["", ""], ["", ""]
        for event in answer.events()[:-1]:
            for choice in event["choices"]:
                text = choice.get("text", choice.get("delta", {}).get("content"))
                texts[choice["index"]] += text or ""
                reasons[choice["index"]] = choice["finish_reason"]
    else:
        choices = answer.json()["choices"]
        texts = [one.get("text", one.get("message", {}).get("content")) for one in choices]
        reasons = [one["finish_reason"] for one in choices]
        assert exchange.outcomes[0].texts == ("a", "ashownb")
    assert (texts, reasons) == (["a", "ashownb"], ["content_filter", "stop"])
    assert sorted(choice for choice, _ in exchange.asked) == [0, 1]
    (record,) = site.records
    assert record.usage is not None and record.usage.injected_tokens == 5
    assert {one.choice for one in record.hook_decisions} == {1}
    assert len(exchange.outcomes) == 1


async def test_one_choice_that_is_denied_ends_all(site: Site) -> None:
    exchange = with_policies(site)
    exchange.window = lambda choice: denying()(choice) if choice else GenerationVerdict()
    site.engine.play = lambda handle: handle.start().say("a").signal(LOST, "X").say("b").finish()
    answer = await site.post(CHAT.path, CHAT.body(n=2))
    assert answer.status == 403
    assert all(handle.is_cancelled for handle in site.engine.handles)
    assert [one.kind for one in exchange.outcomes] == ["denied"]


# -- exactly one end ------------------------------------------------------------------------------


async def test_who_leaves_while_policies_think_about_the_request_cancels_it(site: Site) -> None:
    exchange = with_policies(site)
    exchange.gate.clear()
    asked = site.open(CHAT.path, CHAT.body())
    await until(lambda: exchange.num_waiting)
    asked.disconnect()
    await asked.task
    assert exchange.num_waiting == 0
    assert [one.kind for one in exchange.outcomes] == ["cancelled"]
    assert [record.outcome for record in site.records] == [Outcome.CLIENT_DISCONNECT]


@pytest.mark.parametrize("num", [1, 2])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_who_leaves_while_his_answer_is_held_frees_it(site: Site, is_stream: bool, num: int) -> None:
    exchange = with_policies(site)
    exchange.gated = frozenset({HookPoint.AFTER_PREFILL})
    exchange.gate.clear()
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "ok").finish()
    asked = site.open(CHAT.path, CHAT.body(stream=is_stream, n=num))
    await until(lambda: exchange.num_waiting == num)
    asked.disconnect()
    await asked.task
    assert all(handle.is_cancelled for handle in site.engine.handles)
    assert exchange.num_waiting == 0
    assert [one.kind for one in exchange.outcomes] == ["cancelled"]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_who_leaves_while_he_waits_or_reads_cancels_it_once(site: Site, is_stream: bool) -> None:
    exchange = with_policies(site)
    for play in (lambda handle: None, lambda handle: handle.start(), lambda handle: handle.start().say("a")):
        exchange.outcomes.clear()
        site.engine.handles.clear()
        site.engine.play = play
        asked = site.open(CHAT.path, CHAT.body(stream=is_stream))
        await until(lambda: site.engine.handles)
        for _ in range(20):
            await asyncio.sleep(0)
        asked.disconnect()
        await asked.task
        assert [one.kind for one in exchange.outcomes] == ["cancelled"]


async def test_an_operator_or_the_end_of_the_task_cancels_it_once(site: Site) -> None:
    exchange = with_policies(site)
    exchange.gate.clear()
    asked = site.open(CHAT.path, CHAT.body())
    await until(lambda: exchange.num_waiting)
    (live,) = site.ledger.live.values()
    live.interrupt(RequestCancelled("An operator ended it."))
    await asked.answer()
    assert asked.status == 499
    assert [(one.kind, one.message) for one in exchange.outcomes] == [("cancelled", "An operator ended it.")]

    exchange.outcomes.clear()
    asked = site.open(CHAT.path, CHAT.body())
    await until(lambda: exchange.num_waiting)
    asked.task.cancel()
    await asyncio.wait([asked.task])
    assert [one.kind for one in exchange.outcomes] == ["cancelled"]


async def test_errors_before_and_behind_the_beginning_are_told_once(site: Site) -> None:
    exchange = with_policies(site)
    site.engine.play = lambda handle: handle.start().fail(GenerationFailed("broken"))
    await site.post(CHAT.path, CHAT.body())
    await site.post(CHAT.path, CHAT.body(stream=True))
    site.engine.refuse(GenerationFailed("broken"))
    await site.post(CHAT.path, CHAT.body())
    assert [(one.kind, one.status, one.message) for one in exchange.outcomes] == [
        ("error", 502, "broken")
    ] * 3


async def test_a_time_limit_counts_policies_too_and_is_told_once(site: Site) -> None:
    exchange = with_policies(site)
    exchange.gate.clear()
    answer = await site.post(CHAT.path, CHAT.body(timeout_s=0.05))
    assert answer.status == 504
    assert [(one.kind, one.status) for one in exchange.outcomes] == [("error", 504)]
    assert site.records[0].outcome is Outcome.TIMED_OUT


async def test_a_success_tells_its_texts_and_a_stream_does_not(site: Site) -> None:
    exchange = with_policies(site)
    site.engine.play = saying("ok")
    await site.post(CHAT.path, CHAT.body())
    await site.post(CHAT.path, CHAT.body(stream=True))
    assert exchange.outcomes == [
        TerminalOutcome("success", 200, "", ("ok",)),
        TerminalOutcome("stream_completed", 200),
    ]


async def test_a_trace_shows_when_policies_were_asked(site: Site) -> None:
    exchange = with_policies(site)
    exchange.prefill = exchange.injecting("x")
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "a").finish()
    await site.post(CHAT.path, CHAT.body())
    asked = [phase for phase in site.phases if isinstance(phase, PoliciesAsked)]
    assert [(one.point, one.num_decisions, one.choice) for one in asked] == [
        ("before_chat_completion", 0, None),
        ("after_prefill", 1, 0),
    ]
