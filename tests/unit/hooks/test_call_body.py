import json
import math

import msgspec
import pytest

from hooks.contracts.actions import ACTIONS_AT, CallWebhook, ClampParameter, Deny, InjectText, Tag
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals
from hooks.contracts.view import MessageView, RequestView, TextPart
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.webhooks.call_body import call_body, num_chars_about
from tests.webhook_calls import webhook_call

WORDS = {
    BodyPart.TEXT: {"user-words"},
    BodyPart.MESSAGES: {"system-words", "user-words", "argument-words", "pictures.example"},
    BodyPart.PARAMETERS: {"temperature", "tool-words", "metadata-words"},
    BodyPart.CALLER: {"alice-user", "alice-key", "alice-team", "customer-7"},
    BodyPart.SIGNALS: {"entropy"},
    BodyPart.OUTPUT: {
        "output-words",
        "reasoning-words",
        "output-arguments",
        "message-words",
        "outcome-words",
    },
}
ALL_WORDS = set().union(*WORDS.values())


def encoded(call, *parts, actions=()):
    rights = WebhookRights(frozenset(parts), frozenset(actions))
    return msgspec.json.encode(call_body(call, rights, call_id="c1", unix_s=1_700_000_000))


def words_in(*parts):
    sent = b"".join(encoded(webhook_call(point), *parts) for point in HookPoint).decode()
    return {word for word in ALL_WORDS if word in sent}


def test_without_rights_nothing_goes_out_that_anybody_wrote():
    assert words_in() == set()


@pytest.mark.parametrize("part", BodyPart)
def test_a_right_lets_out_its_own_part_and_no_other(part):
    assert words_in(part) == WORDS[part]


def test_with_all_rights_everything_goes_out():
    assert words_in(*BodyPart) == ALL_WORDS


def test_what_every_call_says():
    body = json.loads(encoded(webhook_call(HookPoint.AFTER_PREFILL, is_observed=True)))

    assert body == {
        "version": 1,
        "id": "c1",
        "created_at": 1_700_000_000,
        "point": "after_prefill",
        "policy": {"id": 9, "name": "Review", "is_observed": True},
        "request": {
            "id": "req_1",
            "endpoint": "chat.completions",
            "model": "small",
            "is_stream": True,
            "choice": 1,
        },
        "actions": [],
    }


def test_the_parts_as_they_are_documented():
    before = json.loads(encoded(webhook_call(), *BodyPart))
    assert before["text"] == "user-words"
    assert before["messages"][1]["parts"] == [
        {"type": "text", "text": "user-words"},
        {"type": "image", "url": "https://pictures.example/media"},
    ]
    assert before["messages"][2]["tool_arguments"] == ['{"a": "argument-words"}']
    assert before["parameters"]["values"] == {"temperature": 0.5, "n": 2}
    assert before["caller"]["end_user"] == "customer-7"
    assert not {"signals", "output", "outcome", "prompts"} & before.keys()

    window = json.loads(encoded(webhook_call(HookPoint.MID_GENERATION), *BodyPart))["signals"]
    assert window == {
        "num_decoded": 40,
        "num_tokens": 16,
        "mean_entropy": 2.0,
        "max_entropy": 4.5,
        "mean_margin": 0.5,
        "min_margin": 0.1,
        "num_high_entropy": 3,
        "num_repetitions": 1,
    }
    output = json.loads(encoded(webhook_call(HookPoint.OUTPUT), *BodyPart))["output"]
    assert output["arguments"] == {"0": '{"b": "output-arguments"}'}
    assert (output["tools"], output["num_released_chars"]) == ({"0": "output-tool"}, 7)
    assert json.loads(encoded(webhook_call(HookPoint.TERMINAL)))["outcome"] == {
        "kind": "error",
        "status": 502,
    }


def test_completions_have_prompts():
    request = RequestView("completions", "small", prompts=("one", None, "two"))
    body = json.loads(encoded(webhook_call(request=request), BodyPart.TEXT, BodyPart.MESSAGES))

    assert body["text"] == "one\ntwo"
    assert body["prompts"] == ["one", None, "two"]


def test_it_is_told_what_it_may_answer_here():
    given = (Deny, InjectText, ClampParameter, Tag, CallWebhook)

    assert json.loads(encoded(webhook_call(), actions=given))["actions"] == [
        "clamp_parameter", "deny", "inject_text", "tag",
    ]  # fmt: skip
    assert json.loads(encoded(webhook_call(HookPoint.TERMINAL), actions=given))["actions"] == ["tag"]
    everything = frozenset().union(*ACTIONS_AT.values())
    for point in HookPoint:
        assert "call_webhook" not in json.loads(encoded(webhook_call(point), actions=everything))["actions"]


def test_a_number_that_is_none_is_null():
    call = webhook_call(HookPoint.AFTER_PREFILL, signals=FirstTokenSignals(math.nan, math.inf))

    assert json.loads(encoded(call, BodyPart.SIGNALS))["signals"] == {"entropy": None, "margin": None}


@pytest.mark.parametrize("point", HookPoint)
@pytest.mark.parametrize(
    "parts", [(), (BodyPart.TEXT,), (BodyPart.MESSAGES,), (BodyPart.OUTPUT,), tuple(BodyPart)]
)
def test_what_would_go_out_is_counted_without_making_it(point, parts):
    words = 'ä\n"😀' * 5000
    request = RequestView("chat.completions", "small", (MessageView("user", (TextPart(words),)),), (words,))
    call = webhook_call(point, request=request)
    num_chars = num_chars_about(call, frozenset(parts))

    assert num_chars <= len(encoded(call, *parts))
    assert num_chars >= len(words) * 2 * len({BodyPart.TEXT, BodyPart.MESSAGES} & set(parts))
