"""The JSON form of each action: an object whose `type` names it, with the action's own fields beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hooks.action_form import value_fields as field
from hooks.contracts.actions import (
    MAX_DENY_STATUS,
    MIN_DENY_STATUS,
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

MAX_WORDS, MAX_WORD_CHARS, MAX_PATTERNS = 1000, 200, 100
# What makes a request another one: who may use which model, and what was asked, has been decided by then.
NOT_PARAMETERS = frozenset(
    {"model", "messages", "prompt", "input", "instructions", "system", "stream", "tools", "functions"}
    | {"skippy_hooks", "mesh_hooks", "user", "metadata"}
)

Check = Callable[[Any, HookPoint | None, str], None]


@dataclass(frozen=True, slots=True)
class ActionForm:
    """`check` says what no field says alone, or what depends on the point (None: not known)."""

    kind: str
    action: type[Action]
    fields: tuple[field.ValueField, ...]
    check: Check = lambda _action, _point, _path: None


def _check_set(action: SetParameter, _point: HookPoint | None, path: str) -> None:
    _check_parameter(action.name, path)


def _check_clamp(action: ClampParameter, _point: HookPoint | None, path: str) -> None:
    _check_parameter(action.name, path)
    if action.minimum is None and action.maximum is None:
        raise InvalidField(path, "a minimum or a maximum is needed")
    if action.minimum is not None and action.maximum is not None and action.minimum > action.maximum:
        raise InvalidField(f"{path}.minimum", "it is above the maximum")


def _check_parameter(name: str, path: str) -> None:
    if name in NOT_PARAMETERS:
        raise InvalidField(f"{path}.name", f"{name} is no parameter that a policy may set")


def _check_mask(action: MaskText, point: HookPoint | None, path: str) -> None:
    if not action.targets:
        raise InvalidField(f"{path}.targets", "at least one is needed")
    for place, target in enumerate(action.targets):
        _check_target(target, point, f"{path}.targets[{place}]")
    if not (action.kinds or action.words or action.patterns):
        raise InvalidField(path, "kinds, words or patterns are needed")


def _check_replace(action: ReplaceText, point: HookPoint | None, path: str) -> None:
    _check_target(action.target, point, f"{path}.target")


def _check_target(target: TextTarget, point: HookPoint | None, path: str) -> None:
    if point is not None and (target is TextTarget.INPUT) != (point is HookPoint.BEFORE):
        raise InvalidField(path, f"there is no {target.value} at {point.value}")


ACTION_FORMS = (
    ActionForm(
        "deny",
        Deny,
        (
            field.text("message", min_chars=1, max_chars=1000, is_required=True),
            field.whole("status", minimum=MIN_DENY_STATUS, maximum=MAX_DENY_STATUS),
            field.word("code", "[a-z][a-z0-9_]{0,63}", "a code of small letters, digits and _"),
        ),
    ),
    ActionForm(
        "inject_text", InjectText, (field.text("text", min_chars=1, is_required=True), field.flag("is_shown"))
    ),
    ActionForm(
        "add_system_prompt",
        AddSystemPrompt,
        (
            field.text("text", min_chars=1, is_required=True),
            field.flag("is_before"),
            field.flag("unless_present"),
        ),
    ),
    ActionForm(
        "set_parameter",
        SetParameter,
        (
            field.word("name", "[A-Za-z_][A-Za-z0-9_]{0,63}", "a parameter's name", is_required=True),
            field.parameter_value("value", max_chars=2000),
        ),
        _check_set,
    ),
    ActionForm(
        "clamp_parameter",
        ClampParameter,
        (
            field.word("name", "[A-Za-z_][A-Za-z0-9_]{0,63}", "a parameter's name", is_required=True),
            field.number("minimum"),
            field.number("maximum"),
        ),
        _check_clamp,
    ),
    ActionForm(
        "mask_text",
        MaskText,
        (
            field.choices("targets", TextTarget, is_required=True),
            field.choices("kinds", MaskKind),
            field.texts("words", max_items=MAX_WORDS, max_chars=MAX_WORD_CHARS),
            field.patterns("patterns", max_items=MAX_PATTERNS),
            field.text("replacement", max_chars=200),
        ),
        _check_mask,
    ),
    ActionForm(
        "replace_text",
        ReplaceText,
        (field.choice("target", TextTarget, is_required=True), field.text("text", is_required=True)),
        _check_replace,
    ),
    ActionForm(
        "consume_media",
        ConsumeMedia,
        (
            field.choice("sort", MediaSort, is_nullable=True),
            field.text("url", max_chars=8192, is_nullable=True),
            field.whole("message_index", minimum=0, maximum=1_000_000, is_nullable=True),
            field.whole("part_index", minimum=0, maximum=1_000_000, is_nullable=True),
            field.text("user_text"),
        ),
    ),
    ActionForm("stop_generation", StopGeneration, (field.choice("reason", StopReason),)),
    ActionForm(
        "tag",
        Tag,
        (
            field.word("name", "[A-Za-z0-9_.-]{1,64}", "letters, digits, _ . and -", is_required=True),
            field.text("value", max_chars=200, is_line=True),
        ),
    ),
    # An id that no header can carry is dropped, and recorded, where it is used.
    ActionForm(
        "capsule_marker",
        CapsuleMarker,
        (
            field.text("capsule_id", max_chars=1000, is_nullable=True),
            field.text("nonce", max_chars=1000, is_nullable=True),
        ),
    ),
    ActionForm(
        "call_webhook",
        CallWebhook,
        (field.whole("webhook_id", minimum=1, maximum=field.MAX_ID, is_required=True),),
    ),
)
FORM_BY_KIND: Mapping[str, ActionForm] = {form.kind: form for form in ACTION_FORMS}
FORM_BY_ACTION: Mapping[type, ActionForm] = {form.action: form for form in ACTION_FORMS}


def action_schema() -> dict[str, Any]:
    """OpenAPI's schema of one action."""
    return {
        "oneOf": [
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["type", *(one.name for one in form.fields if one.is_required)],
                "properties": {
                    "type": {"type": "string", "enum": [form.kind]},
                    **{one.name: dict(one.schema) for one in form.fields},
                },
            }
            for form in ACTION_FORMS
        ]
    }
