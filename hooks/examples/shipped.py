"""The examples themselves. Ids are theirs alone; a row gets its own."""

from __future__ import annotations

from dataclasses import dataclass

from hooks.contracts.actions import (
    AddSystemPrompt,
    CallWebhook,
    ClampParameter,
    Deny,
    InjectText,
    MaskKind,
    MaskText,
    StopGeneration,
    StopReason,
    Tag,
    TextTarget,
)
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, Policy
from hooks.contracts.signals import WindowRule


@dataclass(frozen=True, slots=True)
class ExamplePolicy:
    """`description` is for whoever looks for one. `webhook_id` of a CallWebhook is 0: it is theirs to choose,
    and `needs_webhook` says so."""

    policy: Policy
    description: str

    @property
    def needs_webhook(self) -> bool:
        return any(isinstance(action, CallWebhook) for action in self.policy.actions)


_PERSONAL = (MaskKind.EMAIL, MaskKind.CARD_NUMBER)
# Above this many nats the first token is as good as drawn from 20 equally likely ones: e ** 3.
_UNSURE_ENTROPY = "3.0"

SHIPPED: tuple[ExamplePolicy, ...] = (
    ExamplePolicy(
        Policy(
            policy_id=-1,
            name="block-topics",
            point=HookPoint.BEFORE,
            condition=('has_word(text.input, ["pipe bomb", "nerve agent", "credit card dump"])'),
            actions=(
                Deny("This service does not answer questions about this topic.", code="topic_blocked"),
                Tag("blocked", "topic"),
            ),
            order=10,
        ),
        "Refuses requests that name a topic of the list, in whatever form it is written.",
    ),
    ExamplePolicy(
        Policy(
            policy_id=-2,
            name="mask-personal-input",
            point=HookPoint.BEFORE,
            actions=(MaskText((TextTarget.INPUT,), kinds=_PERSONAL),),
            order=20,
        ),
        "Takes e-mail addresses and card numbers out of what is sent, before the model reads it.",
    ),
    ExamplePolicy(
        Policy(
            policy_id=-3,
            name="mask-personal-output",
            point=HookPoint.OUTPUT,
            actions=(
                MaskText((TextTarget.CONTENT, TextTarget.REASONING, TextTarget.ARGUMENTS), kinds=_PERSONAL),
            ),
            order=20,
            held_chars=128,
        ),
        "Takes e-mail addresses and card numbers out of answers. Streams come 128 characters later.",
    ),
    ExamplePolicy(
        Policy(
            policy_id=-4,
            name="clamp-tokens",
            point=HookPoint.BEFORE,
            condition='principal.team == "interns"',
            actions=(ClampParameter("max_tokens", maximum=512), ClampParameter("n", maximum=1)),
            order=30,
        ),
        "Answers for one team are at most 512 tokens long, and one for each request.",
    ),
    ExamplePolicy(
        Policy(
            policy_id=-5,
            name="require-system-prompt",
            point=HookPoint.BEFORE,
            condition='request.endpoint != "completions"',
            actions=(
                AddSystemPrompt("You are an assistant of this organisation. Answer briefly and truthfully."),
            ),
            order=40,
        ),
        "Puts the organisation's own words in front of every system prompt, once.",
    ),
    ExamplePolicy(
        Policy(
            policy_id=-6,
            name="say-unsure",
            point=HookPoint.AFTER_PREFILL,
            condition=f"signals.entropy > {_UNSURE_ENTROPY}",
            actions=(
                InjectText("I am not sure.", is_shown=True),
                StopGeneration(StopReason.STOP),
                Tag("unsure"),
            ),
            on_failure=FailureRule.OPEN,
        ),
        'Answers "I am not sure." where the model does not know how to begin.',
    ),
    ExamplePolicy(
        Policy(
            policy_id=-7,
            name="stop-repetition",
            point=HookPoint.MID_GENERATION,
            condition="signals.num_repetitions >= 8",
            actions=(StopGeneration(StopReason.STOP), Tag("stopped", "repetition")),
            window=WindowRule(min_repetitions=8, min_high_share=1.0),
            on_failure=FailureRule.OPEN,
        ),
        "Ends an answer in which at least 8 of the last 16 tokens equal the one before them.",
    ),
    ExamplePolicy(
        Policy(
            policy_id=-8,
            name="review-low-confidence",
            point=HookPoint.AFTER_PREFILL,
            condition="signals.margin < 0.1",
            actions=(CallWebhook(0), Tag("reviewed")),
            on_failure=FailureRule.OPEN,
            deadline_s=2.0,
        ),
        "Asks a webhook where the model is torn between two beginnings; the sequence waits for its answer.",
    ),
)
