"""Actions as JSON: what is understood is kept whole, what is not is refused by the name of its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hooks.action_form import MAX_ACTIONS, action_read, action_schema, action_written, actions_read
from hooks.action_form.forms import ACTION_FORMS
from hooks.contracts.actions import (
    ACTIONS_AT,
    Action,
    AddSystemPrompt,
    CallWebhook,
    CapsuleMarker,
    ClampParameter,
    ConsumeMedia,
    Deny,
    InjectText,
    MaskKind,
    MaskText,
    ReplaceText,
    SetParameter,
    StopGeneration,
    StopReason,
    Tag,
    TextTarget,
)
from hooks.contracts.points import HookPoint
from hooks.contracts.refusals import InvalidField
from hooks.contracts.view import MediaSort

EVERY_ACTION: tuple[Action, ...] = (
    Deny("not here", status=451, code="topic_refused"),
    InjectText("Let me think.", is_shown=True),
    AddSystemPrompt("Be brief.", is_before=False, unless_present=False),
    SetParameter("temperature", 0.5),
    SetParameter("stop", None),
    ClampParameter("max_tokens", maximum=256),
    MaskText((TextTarget.INPUT,), (MaskKind.EMAIL,), ("wörd",), ("[0-9]{4}",), "…"),
    ReplaceText(TextTarget.CONTENT, ""),
    ConsumeMedia(MediaSort.IMAGE, "https://a/b.png", 0, 1, "(a picture)"),
    ConsumeMedia(),
    StopGeneration(StopReason.STOP),
    Tag("topic", "chess"),
    CapsuleMarker(),
    CapsuleMarker("c-1", "n"),
    CallWebhook(7),
)


@pytest.mark.parametrize("action", EVERY_ACTION, ids=lambda action: type(action).__name__)
def test_every_action_comes_back_as_it_was(action: Action) -> None:
    form = json.loads(json.dumps(action_written(action)))

    assert action_read(form, point=None) == action


def test_every_kind_of_action_has_a_form() -> None:
    assert {form.action for form in ACTION_FORMS} == set(Action.__args__)  # type: ignore[attr-defined]


def test_a_form_has_the_fields_of_its_action_and_no_other() -> None:
    for form in ACTION_FORMS:
        assert {one.name for one in form.fields} == set(form.action.__dataclass_fields__)


def test_what_is_left_out_is_as_the_action_has_it() -> None:
    assert action_read({"type": "deny", "message": "no"}, point=HookPoint.BEFORE) == Deny("no")


def refused(value: Any, point: HookPoint | None = None, **rest: Any) -> tuple[str | None, str]:
    with pytest.raises(InvalidField) as raised:
        actions_read(value, point=point, **rest)
    return raised.value.field, raised.value.problem


DENY = {"type": "deny", "message": "no"}
MASK = {"type": "mask_text", "targets": ["input"], "words": ["a"]}


@pytest.mark.parametrize(
    ("action", "field"),
    [
        (None, ""),
        ("deny", ""),
        ([], ""),
        ({}, ".type"),
        ({"type": "explode"}, ".type"),
        ({"type": ["deny"]}, ".type"),
        ({"type": None}, ".type"),
        ({"type": "deny"}, ".message"),
        ({**DENY, "message": ""}, ".message"),
        ({**DENY, "message": "  \n"}, ".message"),
        ({**DENY, "message": 5}, ".message"),
        ({**DENY, "message": "x" * 1001}, ".message"),
        ({**DENY, "message": "a\0b"}, ".message"),
        ({**DENY, "message": "a\ud800b"}, ".message"),
        ({**DENY, "status": 200}, ".status"),
        ({**DENY, "status": 500}, ".status"),
        ({**DENY, "status": True}, ".status"),
        ({**DENY, "status": 403.0}, ".status"),
        ({**DENY, "status": "403"}, ".status"),
        ({**DENY, "status": None}, ".status"),
        ({**DENY, "code": "Not A Code"}, ".code"),
        ({**DENY, "code": "ok\n"}, ".code"),
        ({**DENY, "extra": 1}, ".extra"),
        ({**DENY, "e\x1b[2Jx": 1}, ".e?[2Jx"),
        ({"type": "inject_text", "text": " "}, ".text"),
        ({"type": "inject_text", "text": "a", "is_shown": 1}, ".is_shown"),
        ({"type": "set_parameter", "name": "temperature"}, ".value"),
        ({"type": "set_parameter", "name": "temperature", "value": float("nan")}, ".value"),
        ({"type": "set_parameter", "name": "temperature", "value": float("inf")}, ".value"),
        ({"type": "set_parameter", "name": "temperature", "value": 10**400}, ".value"),
        ({"type": "set_parameter", "name": "temperature", "value": [1]}, ".value"),
        ({"type": "set_parameter", "name": "a b", "value": 1}, ".name"),
        ({"type": "set_parameter", "name": "model", "value": "other"}, ".name"),
        ({"type": "set_parameter", "name": "skippy_hooks", "value": False}, ".name"),
        ({"type": "clamp_parameter", "name": "n"}, ""),
        ({"type": "clamp_parameter", "name": "n", "minimum": 2, "maximum": 1}, ".minimum"),
        ({"type": "clamp_parameter", "name": "n", "maximum": True}, ".maximum"),
        ({"type": "mask_text", "words": ["a"]}, ".targets"),
        ({**MASK, "targets": []}, ".targets"),
        ({**MASK, "targets": ["everything"]}, ".targets[0]"),
        ({**MASK, "targets": "input"}, ".targets"),
        ({**MASK, "words": []}, ""),
        ({**MASK, "words": ["a", " "]}, ".words[1]"),
        ({**MASK, "words": ["a\tb"]}, ".words[0]"),
        ({**MASK, "words": ["x"] * 1001}, ".words"),
        ({**MASK, "kinds": ["ssn"]}, ".kinds[0]"),
        ({**MASK, "patterns": ["("]}, ".patterns[0]"),
        ({**MASK, "patterns": ["a*"]}, ".patterns[0]"),
        ({**MASK, "patterns": ["(?=a)b"]}, ".patterns[0]"),
        ({**MASK, "patterns": ["(a{1000}){50}"]}, ".patterns[0]"),
        ({**MASK, "patterns": ["(\\pL{100}){9}"] * 101}, ".patterns"),
        ({"type": "replace_text", "target": "content"}, ".text"),
        ({"type": "consume_media", "sort": "smell"}, ".sort"),
        ({"type": "consume_media", "message_index": -1}, ".message_index"),
        ({"type": "stop_generation", "reason": "length"}, ".reason"),
        ({"type": "tag", "name": "two words"}, ".name"),
        ({"type": "tag", "name": "t", "value": "a\nb"}, ".value"),
        ({"type": "call_webhook"}, ".webhook_id"),
        ({"type": "call_webhook", "webhook_id": 0}, ".webhook_id"),
        ({"type": "call_webhook", "webhook_id": 2**63}, ".webhook_id"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(action: Any, field: str) -> None:
    told, problem = refused([DENY, action])

    assert told == f"actions[1]{field}"
    assert problem


def test_a_list_is_a_list_and_bounded() -> None:
    assert refused({})[0] == refused("x")[0] == refused([DENY] * (MAX_ACTIONS + 1))[0] == "actions"


@pytest.mark.parametrize("point", HookPoint)
def test_what_makes_no_sense_at_a_point_is_refused_there(point: HookPoint) -> None:
    for action in EVERY_ACTION:
        if type(action) not in ACTIONS_AT[point]:
            assert refused([action_written(action)], point)[0] == "actions[0].type"


def test_a_mask_is_for_texts_that_there_are_at_the_point() -> None:
    for point, target in ((HookPoint.OUTPUT, "input"), (HookPoint.BEFORE, "content")):
        assert refused([{**MASK, "targets": [target]}], point)[0] == "actions[0].targets[0]"
    assert refused([{"type": "replace_text", "target": "input", "text": ""}], HookPoint.OUTPUT)[0] == (
        "actions[0].target"
    )


def test_a_webhook_sends_nobody_to_a_webhook() -> None:
    assert refused([{"type": "call_webhook", "webhook_id": 1}], allows_webhooks=False)[0] == "actions[0].type"


def test_refusals_repeat_no_text() -> None:
    for action in ({**DENY, "message": "s3cret\0"}, {**MASK, "patterns": ["(s3cret"]}):
        assert "s3cret" not in refused([action])[1]


def test_the_schema_knows_every_form() -> None:
    by_type = {one["properties"]["type"]["enum"][0]: one for one in action_schema()["oneOf"]}

    assert by_type.keys() == {form.kind for form in ACTION_FORMS}
    assert by_type["deny"]["required"] == ["type", "message"]
    assert by_type["deny"]["properties"]["status"] == {"type": "integer", "minimum": 400, "maximum": 499}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
names = st.sampled_from(sorted({one.name for form in ACTION_FORMS for one in form.fields}))


# The values are many small draws, slow ones on a busy machine.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from([form.kind for form in ACTION_FORMS]),
    given_fields=st.dictionaries(names, json_values, max_size=6),
    point=st.none() | st.sampled_from(HookPoint),
)
def test_anything_is_read_or_refused(
    kind: str, given_fields: dict[str, Any], point: HookPoint | None
) -> None:
    try:
        action = action_read({"type": kind, **given_fields}, point=point)
    except InvalidField as refusal:
        assert refusal.field is not None
        assert refusal.field.startswith("action")
    else:
        assert action_read(json.loads(json.dumps(action_written(action))), point=point) == action
