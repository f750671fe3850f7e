"""Policies at the output, on every wire: what is promised of streams and whole answers is what goes out."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from accounts.contracts import KeyLookup, KeyState
from hooks.contracts.actions import (
    Action,
    CallWebhook,
    CapsuleMarker,
    Deny,
    MaskText,
    ReplaceText,
    StopGeneration,
    StopReason,
    Tag,
    TextTarget,
)
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, Policy, PolicyMode
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from tests.asgi import Exchange
from tests.hook_parts import ScriptedWebhooks, desk_of, policy
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started
from tests.unit.api.test_tool_calls import TEMPLATE, TOOLS, engine_of

EVERYWHERE = (TextTarget.CONTENT, TextTarget.REASONING, TextTarget.ARGUMENTS)
HELD = 32
NAMES_SECRET = "has_word(output.folded, 'secret')"
# The same word as far as anybody reads it.
FORMS = {
    "plain": "secret",
    "another case": "SeCReT",
    "no width": "se\u200bc\u00adr\u2060et",
    "full width": "\uff53\uff45\uff43\uff52\uff45\uff54",
    "circled": "\u24e2ecret",
    "struck through": "s\u0336e\u0336c\u0336r\u0336e\u0336t\u0336",
}
BEFORE, BEHIND = (
    "This is how it is, and nobody knows the ",
    " but us; so keep it, and do not tell anybody of it.",
)

# More than is held back: some of it is out before the word is seen.
LONG = "So it was told, and told again, and not for the last time. " * 3 + BEFORE

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
WIRES = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)


@dataclass
class Said:
    """What a client makes of an answer."""

    content: str = ""
    reasoning: str = ""
    arguments: list[str] = field(default_factory=list)
    finish: str | None = None
    error: dict[str, Any] | None = None
    pieces: list[str] = field(default_factory=list)


def body(path: str, *, is_stream: bool = False, **fields: Any) -> bytes:
    asked: dict[str, Any] = {"model": "scripted", "stream": is_stream, **fields}
    if path == COMPLETIONS:
        asked.setdefault("prompt", "Once")
    elif path == RESPONSES:
        asked.setdefault("input", "hi")
    else:
        asked.setdefault("messages", [{"role": "user", "content": "hi"}])
    limit = "max_output_tokens" if path == RESPONSES else "max_tokens"
    return json.dumps({limit: 1000, **asked}).encode()


def read(path: str, answer: Exchange, *, is_stream: bool, choice: int = 0) -> Said:
    if not is_stream:
        return _READ_WHOLE[path](answer.json(), choice)
    said = Said()
    for event in _events(answer):
        if event.get("error"):
            said.error = event["error"]
        else:
            _READ_EVENT[path](event, choice, said)
    return said


def _events(answer: Exchange) -> list[dict[str, Any]]:
    data = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def _whole_chat(found: dict[str, Any], choice: int) -> Said:
    if "error" in found:
        return Said(error=found["error"])
    one = found["choices"][choice]
    message = one["message"]
    calls = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
    reasoning = message.get("reasoning_content") or ""
    return Said(message["content"] or "", reasoning, calls, one["finish_reason"])


def _whole_completion(found: dict[str, Any], choice: int) -> Said:
    if "error" in found:
        return Said(error=found["error"])
    one = found["choices"][choice]
    return Said(one["text"], finish=one["finish_reason"])


def _whole_response(found: dict[str, Any], choice: int) -> Said:
    if found.get("error"):
        return Said(error=found["error"])
    said = Said(finish=found["status"])
    for item in found["output"]:
        if item["type"] == "function_call":
            said.arguments.append(item["arguments"])
        elif item["type"] == "reasoning":
            said.reasoning += "".join([part["text"] for part in item["content"]])
        else:
            said.content += "".join([part["text"] for part in item["content"]])
    return said


def _whole_message(found: dict[str, Any], choice: int) -> Said:
    if found["type"] == "error":
        return Said(error=found["error"])
    said = Said(finish=found["stop_reason"])
    for block in found["content"]:
        if block["type"] == "tool_use":
            said.arguments.append(json.dumps(block["input"], ensure_ascii=False))
        elif block["type"] == "thinking":
            said.reasoning += block["thinking"]
        else:
            said.content += block["text"]
    return said


def _chat_event(event: dict[str, Any], choice: int, said: Said) -> None:
    for one in event["choices"]:
        if one["index"] != choice:
            continue
        delta = one["delta"]
        said.content += delta.get("content") or ""
        said.reasoning += delta.get("reasoning_content") or ""
        if delta.get("content"):
            said.pieces.append(delta["content"])
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                said.arguments.append("")
            said.arguments[call["index"]] += call["function"]["arguments"]
        said.finish = one["finish_reason"] or said.finish


def _completion_event(event: dict[str, Any], choice: int, said: Said) -> None:
    for one in event["choices"]:
        if one["index"] == choice:
            said.content += one["text"]
            said.pieces.append(one["text"])
            said.finish = one["finish_reason"] or said.finish


def _response_event(event: dict[str, Any], choice: int, said: Said) -> None:
    match event["type"]:
        case "response.output_text.delta":
            said.content += event["delta"]
            said.pieces.append(event["delta"])
        case "response.reasoning_text.delta":
            said.reasoning += event["delta"]
        case "response.function_call_arguments.delta":
            said.arguments[-1] += event["delta"]
        case "response.output_item.added" if event["item"]["type"] == "function_call":
            said.arguments.append("")
        case "response.completed" | "response.incomplete" | "response.failed":
            whole = _whole_response(event["response"], choice)
            said.finish, said.error = event["response"]["status"], event["response"]["error"]
            if said.error is None:
                # What is told once more at the end is what was told before.
                assert (whole.content, whole.reasoning) == (said.content, said.reasoning)
                assert whole.arguments == said.arguments


def _message_event(event: dict[str, Any], choice: int, said: Said) -> None:
    match event["type"]:
        case "content_block_start" if event["content_block"]["type"] == "tool_use":
            said.arguments.append("")
        case "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                said.pieces.append(delta["text"])
            said.content += delta.get("text", "")
            said.reasoning += delta.get("thinking", "")
            if "partial_json" in delta:
                said.arguments[-1] += delta["partial_json"]
        case "message_delta":
            said.finish = event["delta"]["stop_reason"]


_READ_WHOLE: dict[str, Callable[[dict[str, Any], int], Said]] = {
    CHAT: _whole_chat,
    COMPLETIONS: _whole_completion,
    RESPONSES: _whole_response,
    MESSAGES: _whole_message,
}
_READ_EVENT: dict[str, Callable[[dict[str, Any], int, Said], None]] = {
    CHAT: _chat_event,
    COMPLETIONS: _completion_event,
    RESPONSES: _response_event,
    MESSAGES: _message_event,
}


def at_output(*actions: Action, **members: Any) -> Policy:
    return policy(HookPoint.OUTPUT, *actions, **{"held_chars": HELD, **members})


def masking(**members: Any) -> Policy:
    return at_output(MaskText(EVERYWHERE, words=("secret",)), **members)


@asynccontextmanager
async def policed(
    *policies: Policy, webhooks: ScriptedWebhooks | None = None, is_tooled: bool = False
) -> AsyncIterator[Site]:
    site = Site()
    site.runtime.hook_desk = desk_of(*policies, webhooks=webhooks)
    if is_tooled:
        site.engine.description = engine_of(TEMPLATE).description
    await started(site)
    try:
        yield site
    finally:
        await site.runtime.stop()


def speaks(site: Site, *texts: str, reason: FinishReason = FinishReason.STOP) -> None:
    """Choice by choice, byte by byte."""

    def play(handle: ScriptedHandle) -> None:
        text = texts[(len(site.engine.handles) - 1) % len(texts)]
        handle.start()
        if handle.request.num_prompt_logprobs is not None:
            handle.score_prompt()
        for byte in text.encode():
            handle.say_bytes(bytes([byte]))
        handle.finish(reason)

    site.engine.play = play


async def answered(site: Site, path: str, *, is_stream: bool, **fields: Any) -> tuple[Exchange, Said]:
    answer = await site.post(path, body(path, is_stream=is_stream, **fields))
    return answer, read(path, answer, is_stream=is_stream)


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", WIRES)
async def test_a_word_is_masked_in_any_form(path: str, form: str, is_stream: bool) -> None:
    async with policed(masking()) as site:
        speaks(site, BEFORE + FORMS[form] + BEHIND)
        answer, said = await answered(site, path, is_stream=is_stream)
        assert answer.status == 200
        assert said.content == BEFORE + "***" + BEHIND
        assert FORMS[form] not in answer.body.decode()
        (record,) = site.records
        assert record.usage is not None
        assert record.usage.completion_tokens == len((BEFORE + FORMS[form] + BEHIND).encode())


@pytest.mark.parametrize("path", WIRES)
async def test_a_stream_is_released_while_it_goes_on_and_late_by_the_window(path: str) -> None:
    async with policed(masking()) as site:
        exchange = site.open(path, body(path, is_stream=True))
        text = "0123456789" * 30
        while not site.engine.handles:
            await asyncio.sleep(0)
        (handle,) = site.engine.handles
        handle.start()
        for character in text[:200]:
            handle.say(character)
        while len(read(path, exchange, is_stream=True).content) < 200 - 2 * HELD:
            await asyncio.sleep(0)
        assert len(read(path, exchange, is_stream=True).content) <= 200 - HELD
        handle.say(text[200:]).finish()
        said = read(path, await exchange.answer(), is_stream=True)
        assert said.content == text
        assert len(said.pieces) < 15


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", WIRES)
async def test_a_denial_ends_the_answer_and_nothing_of_the_word_is_out(path: str, is_stream: bool) -> None:
    denying = at_output(Deny("This is not for you.", status=451, code="classified"), condition=NAMES_SECRET)
    async with policed(denying) as site:
        speaks(site, LONG + "secret" + BEHIND)
        answer, said = await answered(site, path, is_stream=is_stream)
        assert answer.status == (200 if is_stream else 451)
        assert said.error is not None
        assert said.error["message"] == "This is not for you."
        assert LONG.startswith(said.content)
        assert bool(said.content) == is_stream
        assert "secret" not in answer.body.decode()
        (record,) = site.records
        assert record.outcome is Outcome.REJECTED
        assert record.error_code == "permission_denied"
        assert site.engine.handles[0].is_cancelled


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", WIRES)
async def test_a_filtered_answer_is_a_whole_one_that_ends_early(path: str, is_stream: bool) -> None:
    async with policed(at_output(StopGeneration(), condition=NAMES_SECRET)) as site:
        speaks(site, LONG + "secret" + BEHIND * 3)
        answer, said = await answered(site, path, is_stream=is_stream)
        assert answer.status == 200
        assert said.error is None
        assert said.finish == {RESPONSES: "incomplete", MESSAGES: "refusal"}.get(path, "content_filter")
        assert LONG.startswith(said.content)
        assert bool(said.content) == is_stream
        (record,) = site.records
        assert record.outcome is Outcome.COMPLETED
        handle = site.engine.handles[0]
        if is_stream:
            assert handle.is_cancelled
            assert record.usage is not None
            assert record.usage.completion_tokens < len(LONG + "secret" + BEHIND * 3)
        if path in (CHAT, COMPLETIONS) and is_stream:
            assert answer.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("path", WIRES)
async def test_a_stopped_answer_ends_behind_what_was_seen(path: str) -> None:
    async with policed(at_output(StopGeneration(StopReason.STOP), condition=NAMES_SECRET)) as site:
        speaks(site, LONG + "secret" + BEHIND * 3)
        _, said = await answered(site, path, is_stream=True)
        assert said.finish == {RESPONSES: "completed", MESSAGES: "end_turn"}.get(path, "stop")
        assert said.content.startswith(LONG + "secret")
        assert len(said.content) < len(LONG + "secret" + BEHIND * 3)


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
async def test_other_words_can_stand_for_a_filtered_answer(is_stream: bool) -> None:
    replacing = at_output(
        ReplaceText(TextTarget.CONTENT, "I do not say that."),
        StopGeneration(),
        Tag("filtered"),
        condition=NAMES_SECRET,
    )
    async with policed(replacing) as site:
        speaks(site, "a secret " + BEHIND)
        _, said = await answered(site, CHAT, is_stream=is_stream)
        assert (said.content, said.finish) == ("I do not say that.", "content_filter")


def thinking(text: str) -> str:
    return f"<think>\n{text}\n</think>\n\n"


def calling(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "get_time", "arguments": {arguments}}}\n</tool_call>'


ESCAPED = '{"city": "the \\u0073ecr\\u0065t one"}'


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_thinking_and_calls_are_masked_like_content(path: str, is_stream: bool) -> None:
    tools = TOOLS
    if path == RESPONSES:
        tools = [{"type": "function", "strict": False, **tool["function"]} for tool in TOOLS]
    elif path == MESSAGES:
        tools = [
            {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
            for tool in TOOLS
        ]
    async with policed(masking(), is_tooled=True) as site:
        speaks(
            site,
            thinking("a secret thought")
            + "A Secret. "
            + calling(ESCAPED)
            + calling('{"city": "of secrets"}'),
        )
        answer, said = await answered(site, path, is_stream=is_stream, tools=tools)
        assert answer.status == 200, answer.body
        assert said.reasoning.strip() == "a *** thought"
        assert said.content.strip() == "A ***."
        assert [json.loads(one) for one in said.arguments] == [
            {"city": "the *** one"},
            {"city": "of secrets"},
        ]
        assert said.finish in {"tool_calls", "completed", "tool_use"}


@pytest.mark.parametrize("where", ["thinking", "arguments"])
async def test_a_denial_sees_thinking_and_arguments(where: str) -> None:
    text = thinking("a secret thought") + "Hi." if where == "thinking" else calling(ESCAPED)
    async with policed(at_output(Deny("No."), condition=NAMES_SECRET), is_tooled=True) as site:
        speaks(site, text)
        for is_stream in (True, False):
            answer, said = await answered(site, CHAT, is_stream=is_stream, tools=TOOLS)
            assert said.error is not None
            assert "ecr" not in answer.body.decode()


async def test_a_function_that_nobody_should_call_is_seen_by_its_name() -> None:
    denying = at_output(Deny("Not that one."), condition='output.tools.exists(name, name == "get_time")')
    async with policed(denying, is_tooled=True) as site:
        speaks(site, calling('{"city": "Rome"}'))
        answer, said = await answered(site, CHAT, is_stream=True, tools=TOOLS)
        assert said.error is not None
        assert b"get_time" not in answer.body


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_each_of_several_choices_is_masked(path: str, is_stream: bool) -> None:
    async with policed(masking()) as site:
        texts = [BEFORE + form + BEHIND for form in ("secret", "SECRET", "harmless")]
        speaks(site, *texts)
        answer = await site.post(path, body(path, is_stream=is_stream, n=3))
        found = [read(path, answer, is_stream=is_stream, choice=choice).content for choice in range(3)]
        assert found == [BEFORE + "***" + BEHIND, BEFORE + "***" + BEHIND, BEFORE + "harmless" + BEHIND]


async def test_a_denial_of_one_choice_is_the_end_of_all() -> None:
    async with policed(at_output(Deny("No."), condition=NAMES_SECRET)) as site:
        speaks(site, "harmless", "secret")
        for is_stream in (True, False):
            answer = await site.post(CHAT, body(CHAT, is_stream=is_stream, n=2))
            assert read(CHAT, answer, is_stream=is_stream).error is not None
        assert all(handle.is_cancelled for handle in site.engine.handles)


async def test_the_best_of_several_are_masked() -> None:
    async with policed(masking()) as site:
        speaks(site, "a secret", "a secret")
        answer = await site.post(COMPLETIONS, body(COMPLETIONS, best_of=2))
        assert read(COMPLETIONS, answer, is_stream=False).content == "a ***"


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
async def test_logprobs_of_masked_text_are_left_out(is_stream: bool) -> None:
    text = BEFORE + "secret" + BEHIND
    async with policed(masking()) as site:
        speaks(site, text)
        answer = await site.post(COMPLETIONS, body(COMPLETIONS, is_stream=is_stream, logprobs=1, echo=True))
        events = _events(answer) if is_stream else [answer.json()]
        choices = [one for event in events for one in event["choices"]]
        content = "".join([one["text"] for one in choices])
        scored = [one["logprobs"] for one in choices if one["logprobs"]]
        tokens = [token for one in scored for token in one["tokens"]]
        offsets = [offset for one in scored for offset in one["text_offset"]]
        assert content == "Once" + BEFORE + "***" + BEHIND
        assert "".join(tokens) == "Once" + BEFORE + BEHIND
        assert [content[offset] for offset in offsets] == tokens


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
async def test_a_chat_that_is_parsed_has_its_logprobs_at_the_end_or_not_at_all(is_stream: bool) -> None:
    async with policed(masking(), is_tooled=True) as site:
        for word, num in (("harmless", len("A harmless one.")), ("secret", 0)):
            speaks(site, f"A {word} one.")
            answer = await site.post(CHAT, body(CHAT, is_stream=is_stream, tools=TOOLS, logprobs=True))
            events = _events(answer) if is_stream else [answer.json()]
            found = [
                one["logprobs"]["content"] for event in events for one in event["choices"] if one["logprobs"]
            ]
            assert sum(map(len, found)) == num


async def test_what_is_kept_is_what_was_released() -> None:
    async with policed(masking()) as site:
        site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
        speaks(site, BEFORE + "secret" + BEHIND)
        for is_stream in (True, False):
            _, said = await answered(site, CHAT, is_stream=is_stream)
            assert site.kept.texts[-1].answer == said.content == BEFORE + "***" + BEHIND
            await answered(site, RESPONSES, is_stream=is_stream, store=True)
            assert "secret" not in json.dumps(site.kept.texts[-1].answer)
            assert "***" in json.dumps(site.kept.texts[-1].answer)


async def test_usage_and_done_come_as_without_policies() -> None:
    async with policed(masking()) as site:
        speaks(site, "a secret", reason=FinishReason.LENGTH)
        answer, said = await answered(site, CHAT, is_stream=True, stream_options={"include_usage": True})
        assert said.finish == "length"
        assert _events(answer)[-1]["usage"]["completion_tokens"] == len("a secret")
        assert _events(answer)[-1]["choices"] == []
        assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_a_stop_string_behind_a_policys_stop_did_not_end_the_answer() -> None:
    """Also where both come in one piece."""
    async with policed(at_output(StopGeneration(StopReason.STOP), condition=NAMES_SECRET)) as site:
        site.engine.play = lambda handle: handle.start().say(LONG + "secret" + BEHIND * 3 + "END").finish()
        answer, said = await answered(site, MESSAGES, is_stream=True, stop_sequences=["END"])
        assert said.finish == "end_turn" and b'"stop_sequence":"END"' not in answer.body


async def test_stop_strings_end_the_answer_before_policies_see_it() -> None:
    async with policed(masking()) as site:
        speaks(site, "a secret END and more")
        for is_stream in (True, False):
            _, said = await answered(site, CHAT, is_stream=is_stream, stop=["END"])
            assert (said.content, said.finish) == ("a *** ", "stop")


async def test_a_policy_that_only_observes_changes_nothing_and_is_on_record() -> None:
    async with policed(masking(mode=PolicyMode.OBSERVE, condition=NAMES_SECRET)) as site:
        speaks(site, "a secret")
        _, said = await answered(site, CHAT, is_stream=True)
        assert said.content == "a secret"
        assert [one.result for one in site.records[0].hook_decisions] == ["observed"]


def _without_names(answer: Exchange) -> str:
    """The bytes without what is another for each answer."""
    text = re.sub(r"(chatcmpl-|cmpl-|resp_|msg_|rs_|fc_|call_|toolu_)[\w-]+", r"\1", answer.body.decode())
    return re.sub(r'"(created|created_at|completed_at|\w+_ms|\w+_per_second)":[-\d.e]+', r'"\1":0', text)


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", WIRES)
async def test_who_only_observes_changes_no_byte_and_holds_none_back(path: str, is_stream: bool) -> None:
    watching = {"mode": PolicyMode.OBSERVE, "held_chars": 300}
    policies = [
        at_output(Deny("No."), Tag("seen"), condition=NAMES_SECRET, **watching),
        masking(**watching),
        at_output(ReplaceText(TextTarget.CONTENT, "other words"), StopGeneration(), **watching),
        policy(HookPoint.BEFORE, ReplaceText(TextTarget.INPUT, "x"), Deny("No."), mode=PolicyMode.OBSERVE),
        policy(HookPoint.BEFORE, CapsuleMarker("c"), mode=PolicyMode.OBSERVE),
        policy(HookPoint.TERMINAL, Tag("end"), mode=PolicyMode.OBSERVE),
    ]
    bodies: list[str] = []
    fields: dict[str, Any] = {COMPLETIONS: {"logprobs": 1, "n": 2}, CHAT: {"logprobs": True, "n": 2}}.get(
        path, {}
    )
    for asked in ((), policies):
        async with policed(*asked) as site:
            speaks(site, thinking("a secret") + LONG + "secret" + BEHIND)
            answer = await site.post(path, body(path, is_stream=is_stream, **fields))
            bodies.append(_without_names(answer))
            assert not any(name.startswith("x-capsule-id") for name in answer.headers)
            (record,) = site.records
            assert {one.result for one in record.hook_decisions} == ({"observed"} if asked else set())
            assert "policy:seen" not in (record.metadata or {})
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) > len(LONG)


async def test_who_only_observes_sees_a_word_that_is_cut_anywhere() -> None:
    watching = at_output(Tag("x"), condition=NAMES_SECRET, mode=PolicyMode.OBSERVE, held_chars=10)
    async with policed(watching) as site:
        for size in range(24, 36):
            speaks(site, "o" * size + " secret " + BEHIND)
            await answered(site, CHAT, is_stream=True)
            assert [one.result for one in site.records[-1].hook_decisions][:1] == ["observed"]


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", WIRES)
async def test_escapes_in_an_answer_that_is_json_hide_nothing(path: str, is_stream: bool) -> None:
    said_as = r'{"a": "the \u0073ecre\u0074 one", "b": "x\nsecret"}'
    async with policed(masking()) as site:
        speaks(site, said_as)
        answer, said = await answered(site, path, is_stream=is_stream)
        assert said.content == r'{"a": "the *** one", "b": "x\n***"}'
    async with policed(at_output(Deny("No."), condition=NAMES_SECRET)) as site:
        speaks(site, said_as)
        answer, said = await answered(site, path, is_stream=is_stream)
        assert said.error is not None
        assert b"0073" not in answer.body


async def test_prompts_of_tokens_are_read_by_policies() -> None:
    no_secrets = policy(HookPoint.BEFORE, Deny("No."), condition="has_word(text.user, 'secret')")
    async with policed(no_secrets) as site:
        speaks(site, "fine")
        for prompt, status in (
            (list(b"a secret"), 403),
            ([list(b"a"), list(b"SECRET")], 403),
            (list(b"a"), 200),
        ):
            assert (await site.post(COMPLETIONS, body(COMPLETIONS, prompt=prompt))).status == status
        # Ids that are none are told so, and harm nobody.
        assert (await site.post(COMPLETIONS, body(COMPLETIONS, prompt=[1 << 30]))).status == 400


async def test_a_mask_that_has_to_hold_refuses_what_it_cannot_mask() -> None:
    mask = policy(HookPoint.BEFORE, MaskText((TextTarget.INPUT,), words=("secret",)))
    async with policed(mask) as site:
        speaks(site, "fine")
        for prompt, status in ((list(b"a secret"), 503), (list(b"a"), 200), ("a secret", 200)):
            assert (await site.post(COMPLETIONS, body(COMPLETIONS, prompt=prompt))).status == status
        form = {"structured_outputs": {"choice": ["secret"]}}
        assert (await site.post(CHAT, body(CHAT, **form))).status == 503
        (decision,) = site.records[-1].hook_decisions
        assert decision.reason == "something is found where it cannot be masked"


async def test_while_a_webhook_thinks_nothing_is_released_and_others_go_on() -> None:
    gate = asyncio.Event()
    calls: list[WebhookCall] = []

    async def think(call: WebhookCall) -> WebhookAnswer:
        calls.append(call)
        if len(calls) == 1:
            await gate.wait()
        return WebhookAnswer((MaskText(EVERYWHERE, words=("secret",)),))

    webhooks = ScriptedWebhooks({1: think})
    asking = at_output(CallWebhook(1), deadline_s=30.0)
    async with policed(asking, webhooks=webhooks) as site:
        speaks(site, BEFORE + "secret" + BEHIND)
        first = site.open(CHAT, body(CHAT, is_stream=True))
        while not calls:
            await asyncio.sleep(0)
        _, other = await answered(site, CHAT, is_stream=True)
        assert other.content == BEFORE + "***" + BEHIND
        assert read(CHAT, first, is_stream=True).content == ""
        gate.set()
        assert read(CHAT, await first.answer(), is_stream=True).content == BEFORE + "***" + BEHIND


@pytest.mark.parametrize(("rule", "is_out"), [(FailureRule.OPEN, True), (FailureRule.CLOSED, False)])
async def test_a_webhook_that_is_down_means_what_its_policy_says(rule: FailureRule, is_out: bool) -> None:
    async with policed(at_output(CallWebhook(9), on_failure=rule)) as site:
        speaks(site, "hello")
        for is_stream in (True, False):
            answer, said = await answered(site, CHAT, is_stream=is_stream)
            assert said.content == ("hello" if is_out else "")
            assert (said.error is None) == is_out
            if not is_stream:
                assert answer.status == (200 if is_out else 503)


async def test_a_client_that_leaves_while_policies_think_leaves_nothing_behind() -> None:
    gate = asyncio.Event()

    async def think(call: WebhookCall) -> WebhookAnswer:
        await gate.wait()
        return WebhookAnswer()

    webhooks = ScriptedWebhooks({1: think})
    async with policed(at_output(CallWebhook(1), deadline_s=30.0), webhooks=webhooks) as site:
        speaks(site, BEFORE)
        exchange = site.open(CHAT, body(CHAT, is_stream=True))
        while not webhooks.num_in_flight:
            await asyncio.sleep(0)
        exchange.disconnect()
        while not site.records:
            await asyncio.sleep(0)
        assert site.records[0].outcome is Outcome.CLIENT_DISCONNECT
        assert webhooks.num_in_flight == 0
        assert site.engine.handles[0].is_cancelled
