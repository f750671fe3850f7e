"""inference.hooking.output_gate.py: what policies say of text becomes what the client gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from hooks.contracts.actions import StopReason, TextTarget
from hooks.contracts.decisions import (
    Decision,
    GenerationVerdict,
    HookDenied,
    HookFailed,
    OutputVerdict,
    TextEdit,
)
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowRule, WindowSignals
from hooks.contracts.view import OutputText, RequestView
from inference.domain.errors import PolicyDenied, ServiceUnavailable
from inference.domain.events import FinishReason
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import (
    AnswerPart,
    ContentDelta,
    MessageBuilder,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.domain.phases import PoliciesAsked
from inference.hooking.asking import PolicyAsking
from inference.hooking.output_gate import OutputGate
from inference.parsing.released_tokens import LateTokens, ReleasedTokens, TextTokens

Verdict = Callable[[OutputText], OutputVerdict]


class WordExchange:
    """A HookExchange with policies at OUTPUT alone: what they say of a window is up to the test."""

    window_rules: Sequence[WindowRule] = ()
    tags: Mapping[str, str] = {}
    capsule: tuple[str, str | None] | None = None
    decisions: Sequence[Decision] = ()

    def __init__(self, verdict: Verdict, *, held_chars: int = 40) -> None:
        self.held_chars = self.seen_chars = held_chars
        self.only_observes_output = False
        self.verdict = verdict
        self.shown: list[OutputText] = []

    def wants(self, point: HookPoint) -> bool:
        return point is HookPoint.OUTPUT

    async def before(self, view: RequestView) -> RequestView:
        return view

    async def after_prefill(self, signals: FirstTokenSignals, *, choice: int) -> GenerationVerdict:
        return GenerationVerdict()

    async def mid_generation(self, signals: WindowSignals, *, choice: int) -> GenerationVerdict:
        return GenerationVerdict()

    async def before_output(self, output: OutputText) -> OutputVerdict:
        self.shown.append(output)
        return self.verdict(output)

    def note_injection(self, place: int, *, num_injected: int, num_discarded: int, refusal: str = "") -> None:
        raise AssertionError("nothing is injected here")

    def conclude(self, outcome: TerminalOutcome) -> None:
        pass


def nothing(output: OutputText) -> OutputVerdict:
    return OutputVerdict()


def masking(word: str) -> Verdict:
    def verdict(output: OutputText) -> OutputVerdict:
        start = output.content.find(word)
        if start < 0:
            return OutputVerdict()
        return OutputVerdict((TextEdit(TextTarget.CONTENT, start, start + len(word), "***"),))

    return verdict


def stopping(word: str, reason: StopReason, put: str | None = None) -> Verdict:
    def verdict(output: OutputText) -> OutputVerdict:
        if word not in output.content:
            return OutputVerdict()
        edits = () if put is None else (TextEdit(TextTarget.CONTENT, 0, len(output.content), put),)
        return OutputVerdict(edits, reason)

    return verdict


def refusing(word: str, error: Exception) -> Verdict:
    def verdict(output: OutputText) -> OutputVerdict:
        if word in output.content:
            raise error
        return OutputVerdict()

    return verdict


def gate(
    exchange: WordExchange, *, is_stream: bool = True, tokens: ReleasedTokens | None = None
) -> OutputGate:
    asking = PolicyAsking(exchange, request_id="r", note=lambda phase: None)
    return OutputGate(exchange, asking, choice=2, is_stream=is_stream, tokens=tokens)


def said(*texts: str) -> list[AnswerPart]:
    return [AnswerPart((ContentDelta(text),)) for text in texts]


async def through(gate: OutputGate, parts: Iterable[AnswerPart]) -> list[AnswerPart]:
    released: list[AnswerPart] = []
    for part in parts:
        released += await gate.feed(part)
        if gate.end is not None:
            return released
    return [*released, *await gate.finish()]


def content(parts: Iterable[AnswerPart]) -> str:
    return MessageBuilder([delta for part in parts for delta in part.deltas]).message().content or ""


async def test_a_stream_is_asked_about_when_enough_has_come() -> None:
    exchange = WordExchange(nothing)
    text = "0123456789" * 20
    assert content(await through(gate(exchange), said(*text))) == text
    assert [(len(one.content), one.is_last) for one in exchange.shown] == [
        (80, False),
        (120, False),
        (120, False),
        (120, False),
        (80, True),
    ]
    assert {one.choice for one in exchange.shown} == {2}


async def test_windows_of_which_nothing_came_are_not_told_one_by_one() -> None:
    phases: list[PoliciesAsked] = []
    exchange = WordExchange(nothing)
    asking = PolicyAsking(exchange, request_id="r", note=phases.append)
    await through(OutputGate(exchange, asking, choice=2, is_stream=True), said(*"0123456789" * 20))
    assert len(exchange.shown) == 5
    assert [(one.point, one.num_decisions, one.choice) for one in phases] == [("before_output", 0, 2)]


async def test_a_whole_answer_is_asked_about_once() -> None:
    exchange = WordExchange(masking("secret"))
    parts = await through(gate(exchange, is_stream=False), said("a se", "cr", "et" + "." * 500))
    assert content(parts) == "a ***" + "." * 500
    assert len(exchange.shown) == 1
    assert exchange.shown[0].is_last


async def test_a_long_answer_is_masked_while_others_go_on() -> None:
    text = "x" * 50_000 + "secret" + "y" * 50_000
    parts = await through(gate(WordExchange(masking("secret")), is_stream=False), said(text))
    assert content(parts) == "x" * 50_000 + "***" + "y" * 50_000


async def test_an_empty_answer_is_asked_about_only_where_it_is_whole() -> None:
    for is_stream in (True, False):
        exchange = WordExchange(nothing)
        assert await through(gate(exchange, is_stream=is_stream), []) == []
        assert len(exchange.shown) == (0 if is_stream else 1)


async def test_a_word_over_many_parts_is_masked() -> None:
    exchange = WordExchange(masking("secret"))
    text = "x" * 77 + "secret" + "y" * 100
    assert content(await through(gate(exchange), said(*text))) == "x" * 77 + "***" + "y" * 100


async def test_a_denial_is_the_error_of_the_request_and_nothing_held_goes_out() -> None:
    denied = HookDenied("Not that.", status=451, code="no_secrets", policy="secrets")
    one = gate(WordExchange(refusing("secret", denied)))
    released: list[AnswerPart] = []
    with pytest.raises(PolicyDenied) as caught:
        for part in said(*("x" * 100 + "secret" + "y" * 100)):
            released += await one.feed(part)
    assert (caught.value.status, caught.value.code, caught.value.message) == (451, "no_secrets", "Not that.")
    assert set(content(released)) == {"x"}


async def test_a_policy_that_could_not_be_asked_makes_the_service_unavailable() -> None:
    one = gate(WordExchange(refusing("", HookFailed("secrets"))), is_stream=False)
    with pytest.raises(ServiceUnavailable):
        await through(one, said("hello"))


async def test_a_filtered_answer_ends_without_what_is_held() -> None:
    one = gate(WordExchange(stopping("secret", StopReason.CONTENT_FILTER)))
    parts = await through(one, said(*("x" * 100 + "secret" + "y" * 100)))
    assert one.end is FinishReason.CONTENT_FILTER
    assert set(content(parts)) == {"x"}


async def test_what_stands_for_all_of_a_filtered_answer_goes_out() -> None:
    one = gate(WordExchange(stopping("secret", StopReason.CONTENT_FILTER, "No.")), is_stream=False)
    parts = await through(one, said("the secret is out"))
    assert (content(parts), one.end) == ("No.", FinishReason.CONTENT_FILTER)


async def test_a_stopped_answer_ends_behind_what_was_seen() -> None:
    one = gate(WordExchange(stopping("stop", StopReason.STOP)))
    parts = await through(one, said(*("x" * 50 + "stop" + "y" * 100)))
    assert (content(parts), one.end) == ("x" * 50 + "stop" + "y" * 26, FinishReason.STOP)


async def test_an_answer_that_is_stopped_at_its_end_keeps_its_own_reason() -> None:
    one = gate(WordExchange(stopping("stop", StopReason.STOP)))
    assert content(await through(one, said("and stop"))) == "and stop"
    assert one.end is None


async def test_calls_and_thinking_pass_in_their_order() -> None:
    deltas = (
        ReasoningDelta("hm"),
        ContentDelta("Let me see."),
        ToolCallBegin(0, "call_0", "look"),
        ToolCallArguments(0, '{"a":1}'),
        ToolCallEnd(0),
    )
    exchange = WordExchange(nothing)
    (part,) = await through(gate(exchange), [AnswerPart((one,)) for one in deltas])
    assert part.deltas == deltas
    assert exchange.shown[0].tool_names == {0: "look"}


def scored(text: str) -> list[AnswerPart]:
    return [
        AnswerPart((ContentDelta(one),), (ScoredToken(one, one.encode(), -0.5, place),))
        for place, one in enumerate(text)
    ]


async def test_tokens_agree_with_the_text_that_goes_out() -> None:
    text = "x" * 77 + "secret" + "y" * 100
    parts = await through(gate(WordExchange(masking("secret")), tokens=TextTokens()), scored(text))
    masked = content(parts)
    tokens = [token for part in parts for token in part.tokens]
    assert "".join([token.text for token in tokens]) == "x" * 77 + "y" * 100
    assert all(masked[token.offset] == token.text for token in tokens)


async def test_tokens_of_a_parsed_answer_come_with_the_last_text() -> None:
    call = AnswerPart((ToolCallBegin(0, "call_0", "look"), ToolCallArguments(0, "{}"), ToolCallEnd(0)))
    parts = await through(gate(WordExchange(nothing), tokens=LateTokens()), [call, *scored("text")])
    assert [part.deltas[0] for part in parts] == [call.deltas[0], ContentDelta("text")]
    assert [token.text for token in parts[1].tokens] == list("text")
