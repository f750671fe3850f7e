"""What a webhook is sent: JSON with only the parts of a request that its rights name.

A part that is not allowed, or that there is not at this point, is absent. docs/hooks.md shows the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import UNSET, UnsetType

from hooks.action_form.forms import FORM_BY_ACTION
from hooks.contracts.actions import ACTIONS_AT, CallWebhook
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import HookCaller, MessageView, ParameterValue, RequestView, TextPart
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.contracts.webhooks import WebhookCall

BODY_VERSION = 1


class PolicyFields(msgspec.Struct, frozen=True):
    """`is_observed`: the answer will change nothing."""

    id: int
    name: str
    is_observed: bool


class RequestFields(msgspec.Struct, frozen=True):
    """`choice` is the answer's index at the points of a generation, else null."""

    id: str
    endpoint: str
    model: str
    is_stream: bool
    choice: int | None


class PartFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """`type` is text, image, audio or video. A file that came with the request has its digest for a URL."""

    type: str
    text: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class MessageFields(msgspec.Struct, frozen=True):
    role: str
    parts: list[PartFields]
    name: str | None
    reasoning: str | None
    tool_arguments: tuple[str, ...]


class ParameterFields(msgspec.Struct, frozen=True):
    """`values` are those of the body by their wire names, `fields` the names of all that the body has."""

    values: Mapping[str, ParameterValue]
    fields: list[str]
    tools: tuple[str, ...]
    metadata: Mapping[str, str]


class CallerFields(msgspec.Struct, frozen=True):
    user_id: int
    user: str
    key_id: int
    key: str
    team_id: int | None
    team: str
    end_user: str


class WindowFields(msgspec.Struct, frozen=True):
    num_decoded: int
    num_tokens: int
    mean_entropy: float
    max_entropy: float
    mean_margin: float
    min_margin: float
    num_high_entropy: int
    num_repetitions: int


class OutputFields(msgspec.Struct, frozen=True):
    content: str
    reasoning: str
    arguments: Mapping[int, str]
    tools: Mapping[int, str]
    num_released_chars: int
    is_last: bool


class OutcomeFields(msgspec.Struct, frozen=True):
    """What the client was told of an error, and the texts of whole answers, are parts of the output."""

    kind: str
    status: int
    message: str | UnsetType = UNSET
    texts: tuple[str, ...] | UnsetType = UNSET


class CallBody(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `id` is the call's, the same in each try; `actions` those that an answer may have here."""

    version: int = BODY_VERSION
    id: str
    created_at: int
    point: str
    policy: PolicyFields
    request: RequestFields
    actions: list[str]
    text: str | UnsetType = UNSET
    messages: list[MessageFields] | UnsetType = UNSET
    prompts: tuple[str | None, ...] | UnsetType = UNSET
    parameters: ParameterFields | UnsetType = UNSET
    caller: CallerFields | UnsetType = UNSET
    signals: FirstTokenSignals | WindowFields | UnsetType = UNSET
    output: OutputFields | UnsetType = UNSET
    outcome: OutcomeFields | UnsetType = UNSET


def call_body(call: WebhookCall, rights: WebhookRights, *, call_id: str, unix_s: int) -> CallBody:
    """What `rights` let out of a call."""
    request, parts = call.request, rights.parts
    return CallBody(
        id=call_id,
        created_at=unix_s,
        point=call.point.value,
        policy=PolicyFields(call.policy_id, call.policy, call.is_observed),
        request=RequestFields(
            call.request_id, request.endpoint, request.model, request.is_stream, call.choice
        ),
        actions=sorted(
            FORM_BY_ACTION[action].kind
            for action in rights.actions & ACTIONS_AT[call.point]
            if action is not CallWebhook
        ),
        text="\n".join(_user_texts(request)) if BodyPart.TEXT in parts else UNSET,
        messages=[_message(one) for one in request.messages] if BodyPart.MESSAGES in parts else UNSET,
        prompts=request.prompts if BodyPart.MESSAGES in parts and request.prompts else UNSET,
        parameters=_parameters(request) if BodyPart.PARAMETERS in parts else UNSET,
        caller=_caller(call.caller, request) if BodyPart.CALLER in parts else UNSET,
        signals=_signals(call) if BodyPart.SIGNALS in parts else UNSET,
        output=_output(call) if BodyPart.OUTPUT in parts else UNSET,
        outcome=_outcome(call, shows_text=BodyPart.OUTPUT in parts),
    )


def num_chars_about(call: WebhookCall, parts: frozenset[BodyPart]) -> int:
    """How much text would go out: never more than the bytes of the body, and known without making it."""
    num_chars = 0
    if BodyPart.TEXT in parts:
        num_chars += sum(len(text) for text in _user_texts(call.request))
    if BodyPart.MESSAGES in parts:
        for message in call.request.messages:
            num_chars += len(message.text) + sum(len(one) for one in message.tool_arguments)
        num_chars += sum(len(prompt or "") for prompt in call.request.prompts)
    if BodyPart.OUTPUT in parts and call.output is not None:
        num_chars += len(call.output.content) + len(call.output.reasoning)
    return num_chars


def _user_texts(request: RequestView) -> Iterator[str]:
    """What users wrote, as conditions know it (`text.user`)."""
    yield from (message.text for message in request.messages if message.role == "user")
    yield from (prompt for prompt in request.prompts if prompt is not None)


def _message(message: MessageView) -> MessageFields:
    parts = [
        PartFields("text", text=part.text)
        if isinstance(part, TextPart)
        else PartFields(part.sort.value, url=part.url)
        for part in message.parts
    ]
    return MessageFields(message.role, parts, message.name, message.reasoning, message.tool_arguments)


def _parameters(request: RequestView) -> ParameterFields:
    return ParameterFields(request.parameters, sorted(request.fields), request.tool_names, request.metadata)


def _caller(caller: HookCaller, request: RequestView) -> CallerFields:
    return CallerFields(
        user_id=caller.user_id,
        user=caller.username,
        key_id=caller.key_id,
        key=caller.key_name,
        team_id=caller.team_id,
        team=caller.team_name,
        end_user=request.end_user,
    )


def _signals(call: WebhookCall) -> FirstTokenSignals | WindowFields | UnsetType:
    given = call.signals
    if not isinstance(given, WindowSignals):
        return UNSET if given is None else given
    return WindowFields(
        num_decoded=given.num_decoded,
        num_tokens=given.num_tokens,
        mean_entropy=given.mean_entropy,
        max_entropy=given.max_entropy,
        mean_margin=given.mean_margin,
        min_margin=given.min_margin,
        num_high_entropy=given.num_high_entropy,
        num_repetitions=given.num_repetitions,
    )


def _output(call: WebhookCall) -> OutputFields | UnsetType:
    given = call.output
    if given is None:
        return UNSET
    return OutputFields(
        given.content,
        given.reasoning,
        given.arguments,
        given.tool_names,
        given.num_released_chars,
        given.is_last,
    )


def _outcome(call: WebhookCall, *, shows_text: bool) -> OutcomeFields | UnsetType:
    given = call.outcome
    if given is None:
        return UNSET
    if not shows_text:
        return OutcomeFields(given.kind, given.status)
    return OutcomeFields(given.kind, given.status, given.message, given.texts)
