"""What is tried: a request, whose it is, and what nobody generates for it, as the service would tell it."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldBooleanWidget,
)

from hooks.admin.form_fields import WrittenJsonField
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.selectors import policy_names, webhooks_told
from hooks.services.trial_desk import ENDPOINTS, SaidAnswer

_EXAMPLE = {"model": "the-model", "messages": [{"role": "user", "content": "Hello!"}]}
_MAX_ID = 2**63 - 1
MAX_ANSWER_CHARS = 1_000_000
# A stream is cut into no more pieces than that: each may be a window.
MAX_PIECES = 20_000
MAX_CALLS = 128
MAX_SIGNAL = 10_000.0
NO_ANSWER, WHOLE, STREAM = "", "whole", "stream"
_OUTCOMES = ("success", "stream_completed", "error", "denied", "cancelled")
_COUNTS = frozenset({"num_decoded", "num_tokens", "num_high_entropy", "num_repetitions"})
_SIGNALS = tuple([one.name for one in fields(WindowSignals) if one.name != "rules"])


def _number(label: str, help_text: str = "", most: float = MAX_SIGNAL) -> forms.FloatField:
    return forms.FloatField(
        required=False, min_value=0, max_value=most, label=label, help_text=help_text,
        widget=UnfoldAdminDecimalFieldWidget,
    )  # fmt: skip


def _text(label: str, help_text: str = "") -> forms.CharField:
    return forms.CharField(
        required=False, strip=False, max_length=MAX_ANSWER_CHARS, label=label, help_text=help_text,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"}),
    )  # fmt: skip


class TrialForm(forms.Form):
    """Its fields begin with `trial-`, beside those of the policy that is carried along."""

    prefix = "trial"
    endpoint = forms.ChoiceField(
        choices=[(one, one) for one in ENDPOINTS], widget=UnfoldAdminSelectWidget, initial=ENDPOINTS[0]
    )
    body = WrittenJsonField(label="Request", help_text="The body, as clients send it.", initial=_EXAMPLE)
    user_id = forms.IntegerField(
        required=False, min_value=1, max_value=_MAX_ID, widget=UnfoldAdminIntegerFieldWidget,
        label="As the user (number)", help_text="Empty: you.",
    )  # fmt: skip
    key_id = forms.IntegerField(
        required=False, min_value=1, max_value=_MAX_ID, widget=UnfoldAdminIntegerFieldWidget,
        label="With the key (number)", help_text="Empty: none.",
    )  # fmt: skip
    enforce = forms.TypedMultipleChoiceField(
        required=False, coerce=int, widget=UnfoldAdminCheckboxSelectMultipleWidget,
        label="Try as if they were enforced",
        help_text="The others are asked in their mode; those that are off are not.",
    )  # fmt: skip

    entropy = _number("Entropy of the first token", "In nats. After prefill is tried with both.", 100)
    margin = _number("Margin of the first token", "As a natural logarithm.")
    window = WrittenJsonField(
        required=False, label="Window of tokens",
        help_text="Mid-generation is tried with it, as if every rule had fired. What is left out is 0.",
    )  # fmt: skip
    answer_kind = forms.ChoiceField(
        required=False, label="Answer", widget=UnfoldAdminSelectWidget,
        choices=[(NO_ANSWER, "none: before output is not tried"), (WHOLE, "whole"), (STREAM, "a stream")],
    )  # fmt: skip
    content = _text("Content")
    reasoning = _text("Thinking")
    calls = WrittenJsonField(
        required=False, label="Calls",
        help_text='A list, as [{"name": "send", "arguments": {"to": "bob"}}]; arguments may be text.',
    )  # fmt: skip
    chunk_chars = forms.IntegerField(
        required=False, min_value=1, max_value=10_000, initial=4, widget=UnfoldAdminIntegerFieldWidget,
        label="Characters in a piece of the stream",
    )  # fmt: skip
    outcome = forms.ChoiceField(
        required=False, label="How it ends", widget=UnfoldAdminSelectWidget,
        choices=[("", "success, or what policies make of it"), *[(one, one) for one in _OUTCOMES]],
    )  # fmt: skip
    status = forms.IntegerField(
        required=False, min_value=100, max_value=599, label="Its status", help_text="Empty: 200.",
        widget=UnfoldAdminIntegerFieldWidget,
    )  # fmt: skip
    asks_webhooks = forms.BooleanField(
        required=False, label="Really ask the webhooks", widget=UnfoldBooleanWidget,
    )  # fmt: skip

    def __init__(self, *args: Any, may_ask_webhooks: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["enforce"].choices = list(policy_names().items())  # type: ignore[attr-defined]
        if may_ask_webhooks:
            told = "; ".join(webhooks_told()) or "there are none"
            self.fields["asks_webhooks"].help_text = f"What you wrote above is then sent, signed: {told}."
        else:
            del self.fields["asks_webhooks"]

    def groups(self) -> list[tuple[str, list[Any]]]:
        """All of its fields, under what they are about."""
        return [
            ("The request", [self[name] for name in ("body", "endpoint", "user_id", "key_id", "enforce")]),
            ("How sure the model was", [self[name] for name in ("entropy", "margin", "window")]),
            (
                "The answer",
                [self[name] for name in ("answer_kind", "content", "reasoning", "calls", "chunk_chars")],
            ),
            ("Its end", [self[name] for name in ("outcome", "status")]),
            ("Webhooks", [self[name] for name in ("asks_webhooks",) if name in self.fields]),
        ]

    def clean_window(self) -> WindowSignals | None:
        given = self.cleaned_data["window"]
        if given is None:
            return None
        if not isinstance(given, dict) or given.keys() - set(_SIGNALS):
            raise forms.ValidationError(f"A window is a JSON object with some of {', '.join(_SIGNALS)}.")
        for name, value in given.items():
            wanted = int if name in _COUNTS else (int, float)
            if isinstance(value, bool) or not isinstance(value, wanted) or not 0 <= value <= MAX_SIGNAL:
                kind = "a whole number" if name in _COUNTS else "a number"
                raise forms.ValidationError(f"{name} is {kind} from 0 to {MAX_SIGNAL:.0f}.")
        return WindowSignals(**{name: given.get(name, 0) for name in _SIGNALS})

    def clean_calls(self) -> tuple[tuple[str, str], ...]:
        given = self.cleaned_data["calls"]
        if given is None:
            return ()
        if not isinstance(given, list) or len(given) > MAX_CALLS:
            raise forms.ValidationError(f"Calls are a JSON list of at most {MAX_CALLS}.")
        found: list[tuple[str, str]] = []
        for one in given:
            if not isinstance(one, dict) or one.keys() - {"name", "arguments"}:
                raise forms.ValidationError("A call is a JSON object with name and arguments.")
            name, arguments = one.get("name"), one.get("arguments", {})
            if not isinstance(name, str) or not name:
                raise forms.ValidationError("A call has a name, which is text.")
            written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            found.append((name, written))
        return tuple(found)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if (cleaned.get("entropy") is None) != (cleaned.get("margin") is None):
            self.add_error("margin" if cleaned.get("margin") is None else "entropy", "Give both, or none.")
        num_chars = sum(map(len, (cleaned.get("content", ""), cleaned.get("reasoning", ""))))
        if num_chars / (cleaned.get("chunk_chars") or 4) > MAX_PIECES:
            self.add_error("chunk_chars", f"These are more than {MAX_PIECES} pieces.")
        return cleaned

    @property
    def first_token(self) -> FirstTokenSignals | None:
        given = self.cleaned_data
        if given["entropy"] is None:
            return None
        return FirstTokenSignals(given["entropy"], given["margin"])

    @property
    def answer(self) -> SaidAnswer | None:
        given = self.cleaned_data
        if given["answer_kind"] == NO_ANSWER:
            return None
        return SaidAnswer(given["content"], given["reasoning"], given["calls"], given["chunk_chars"] or 4)

    @property
    def terminal_outcome(self) -> TerminalOutcome | None:
        given = self.cleaned_data
        if not given["outcome"]:
            return None
        texts = (given["content"],) if given["outcome"] == "success" and given["answer_kind"] else ()
        return TerminalOutcome(given["outcome"], given["status"] or 200, texts=texts)

    def clean_body(self) -> dict[str, Any]:
        body = self.cleaned_data["body"]
        if not isinstance(body, dict):
            raise forms.ValidationError("A request is a JSON object.")
        return body
