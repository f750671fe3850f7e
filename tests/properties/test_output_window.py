"""inference/parsing/output_window.py: whatever an answer is cut into, nothing gets out unseen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from unicodedata import normalize

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hooks.applying import apply_to_output, output_draft
from hooks.contracts.actions import MaskKind, MaskText, TextTarget
from hooks.contracts.decisions import TextEdit
from hooks.contracts.view import OutputText
from inference.domain.message_deltas import (
    AssistantMessage,
    ContentDelta,
    MessageBuilder,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.parsing.output_window import OutputWindow
from inference.parsing.read_size import place_before, read_size

Policy = Callable[[OutputText], Sequence[TextEdit]]
WORDS = ("block", "aba", "ab block")


def matches(text: str, pattern: re.Pattern[str]) -> Iterable[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(text)]


def mask(pattern: str, replacement: str = "***") -> Policy:
    compiled = re.compile(pattern)

    def policy(output: OutputText) -> list[TextEdit]:
        texts = [
            (TextTarget.CONTENT, None, output.content),
            (TextTarget.REASONING, None, output.reasoning),
            *[(TextTarget.ARGUMENTS, call, text) for call, text in output.arguments.items()],
        ]
        return [
            TextEdit(target, start, end, replacement, call)
            for target, call, text in texts
            for start, end in matches(text, compiled)
        ]

    return policy


def run(
    window: OutputWindow, deltas: Iterable[MessageDelta], policy: Policy = lambda output: ()
) -> list[MessageDelta]:
    released: list[MessageDelta] = []
    for delta in deltas:
        window.push([delta])
        if window.is_due:
            released += window.release(policy(window.view(0))).deltas
    window.close()
    released += window.release(policy(window.view(0))).deltas
    assert window.is_empty
    return released


def kind(delta: MessageDelta) -> tuple[type[MessageDelta], int | None]:
    return type(delta), getattr(delta, "index", None)


def joined(deltas: Iterable[MessageDelta]) -> list[MessageDelta]:
    """Each text in one delta."""
    result: list[MessageDelta] = []
    spoken = [one for one in deltas if getattr(one, "text", "-")]
    for (_, index), group in groupby(spoken, kind):
        first, *others = group
        match first:
            case ContentDelta():
                result.append(ContentDelta("".join([one.text for one in (first, *others)])))  # type: ignore[union-attr]
            case ReasoningDelta():
                result.append(ReasoningDelta("".join([one.text for one in (first, *others)])))  # type: ignore[union-attr]
            case ToolCallArguments():
                assert index is not None
                text = "".join([one.text for one in (first, *others)])  # type: ignore[union-attr]
                result.append(ToolCallArguments(index, text))
            case _:
                result += [first, *others]
    return result


def message(deltas: Iterable[MessageDelta]) -> AssistantMessage:
    return MessageBuilder(deltas).message()


def cut(text: str, cuts: Iterable[int]) -> list[str]:
    places = sorted({0, len(text), *[one % (len(text) + 1) for one in cuts]})
    return [text[begin:end] for begin, end in pairwise(places)]


def pieces(deltas: Iterable[MessageDelta], cuts: Sequence[int]) -> list[MessageDelta]:
    """The same, each text cut into some."""
    result: list[MessageDelta] = []
    for delta in deltas:
        match delta:
            case ContentDelta(text):
                result += [ContentDelta(one) for one in cut(text, cuts)]
            case ReasoningDelta(text):
                result += [ReasoningDelta(one) for one in cut(text, cuts)]
            case ToolCallArguments(index, text):
                result += [ToolCallArguments(index, one) for one in cut(text, cuts)]
            case _:
                result.append(delta)
    return result


def obeying(action: MaskText) -> Policy:
    return lambda output: apply_to_output(output_draft(output), action).edits


ALL = (TextTarget.CONTENT, TextTarget.REASONING, TextTarget.ARGUMENTS)
SHIPPED = MaskText(ALL, kinds=(MaskKind.EMAIL, MaskKind.CARD_NUMBER), words=("block", "red apple"))
written_forms = st.sampled_from(
    ["block", "BLOCK", "b\u200blo\u00adck", "\uff42\uff4c\uff4f\uff43\uff4b", "blo\u0336ck", "\u24d1lock"]
)
secrets = st.one_of(
    written_forms,
    st.sampled_from(
        ["red \n\n  apple", "Red\u00a0Apple", "me@home.org", "4111 1111 1111 1111", "5500-0000-0000-0004"]
    ),
)
between = st.sampled_from(
    [" ", ", ", "\n", " and so it is that ", " 12 ", " e\u0301t\u0301 ", "\u4f60\u597d "]
)

cuts = st.lists(st.integers(0, 10_000), max_size=40)
held = st.sampled_from([0, 1, 5, 8, 20, 64])
part = st.one_of(
    st.sampled_from(
        [*WORDS, "ababa", "blo", "ck", "block block", "x" * 30, "\u200b", "e\u0301", "  \n", "ﬃ"]
    ),
    st.text("abc blok.\u200b", max_size=12),
)
texts = st.lists(part, max_size=30).map("".join)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**6), 10**18),
        st.floats(allow_nan=False, allow_infinity=False, width=32),
        texts,
        st.sampled_from(["bl\u00f6ck", "tab\tblock", 'quote " block \\', "\U0001f600block", "block"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
arguments = st.tuples(st.dictionaries(texts, values, max_size=4), st.booleans()).map(
    lambda drawn: json.dumps(drawn[0], ensure_ascii=drawn[1])
)


def call(index: int, text: str) -> list[MessageDelta]:
    return [ToolCallBegin(index, f"call_{index}", "look"), ToolCallArguments(index, text), ToolCallEnd(index)]


@st.composite
def answers(draw: st.DrawFn) -> list[MessageDelta]:
    deltas: list[MessageDelta] = []
    num_calls = 0
    for sort in draw(st.lists(st.sampled_from("crt"), max_size=6)):
        if sort == "c":
            deltas.append(ContentDelta(draw(texts)))
        elif sort == "r":
            deltas.append(ReasoningDelta(draw(texts)))
        else:
            deltas += call(num_calls, draw(arguments))
            num_calls += 1
    return deltas


@settings(deadline=None)
@given(answers(), cuts, st.one_of(held, st.none()))
def test_without_a_change_an_answer_comes_out_as_it_went_in(
    answer: list[MessageDelta], places: list[int], held_chars: int | None
) -> None:
    window = OutputWindow(held_chars=held_chars)
    assert joined(run(window, pieces(answer, places))) == joined(answer)
    assert not window.has_changed


@settings(max_examples=80, deadline=None)
@given(texts, cuts, st.sampled_from([8, 20, 64]), st.sampled_from(["content", "reasoning", "arguments"]))
def test_a_stream_is_masked_as_the_whole_answer_is(
    text: str, places: list[int], held_chars: int, where: str
) -> None:
    policy = mask(r"\bab block\b|block|aba|\bb+\b(?!c)")
    answer: list[MessageDelta] = {
        "content": [ContentDelta(text)],
        "reasoning": [ReasoningDelta(text)],
        "arguments": call(0, json.dumps({"text": text})),
    }[where]
    whole = run(OutputWindow(held_chars=None), answer, policy)
    streamed = run(OutputWindow(held_chars=held_chars), pieces(answer, places), policy)
    assert joined(streamed) == joined(whole)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.one_of(secrets, texts), between), max_size=16),
    cuts,
    st.sampled_from([24, 64]),
    st.sampled_from(["content", "reasoning", "arguments"]),
    st.booleans(),
)
def test_what_is_shipped_masks_a_stream_as_it_masks_the_whole(
    spoken: list[tuple[str, str]], places: list[int], held_chars: int, where: str, is_ascii: bool
) -> None:
    text = "".join([word + rest for word, rest in spoken])
    answer: list[MessageDelta] = {
        "content": [ContentDelta(text)],
        "reasoning": [ReasoningDelta(text)],
        "arguments": call(0, json.dumps({"text": text}, ensure_ascii=is_ascii)),
    }[where]
    policy = obeying(SHIPPED)
    whole = run(OutputWindow(held_chars=None), answer, policy)
    streamed = run(OutputWindow(held_chars=held_chars), pieces(answer, places), policy)
    assert joined(streamed) == joined(whole)


@settings(max_examples=80, deadline=None)
@given(answers(), cuts, st.sampled_from([5, 8, 20, 64]))
def test_no_word_that_is_not_longer_than_the_window_ever_gets_out(
    answer: list[MessageDelta], places: list[int], held_chars: int
) -> None:
    released = message(run(OutputWindow(held_chars=held_chars), pieces(answer, places), mask("block")))
    for text in (released.content, released.reasoning):
        assert "block" not in (text or "")
    for made in released.tool_calls:
        assert "block" not in json.dumps(json.loads(made.arguments), ensure_ascii=False)


@settings(max_examples=80, deadline=None)
@given(
    arguments,
    cuts,
    st.one_of(held, st.none()),
    st.sampled_from([r"[0-9]{2,}", r"b.*?k", r"[a-z]+", r'"[^"]*"']),
)
def test_masked_arguments_are_json(
    text: str, places: list[int], held_chars: int | None, pattern: str
) -> None:
    window = OutputWindow(held_chars=held_chars)
    released = message(run(window, pieces(call(0, text), places), mask(pattern, 'a "mask"\n\\')))
    json.loads(released.tool_calls[0].arguments)


@settings(deadline=None)
@given(texts, cuts, held)
def test_nothing_is_released_that_was_not_shown_with_enough_behind_it(
    text: str, places: list[int], held_chars: int
) -> None:
    window = OutputWindow(held_chars=held_chars)
    pushed = ""
    released = ""
    for piece in cut(text, places):
        window.push([ContentDelta(piece)])
        pushed += piece
        if not window.is_due:
            continue
        shown = window.view(0)
        assert shown.content.endswith(pushed[len(released) :]) and pushed.endswith(shown.content)
        assert shown.num_released_chars == len(released)
        released += message(window.release().deltas).content or ""
        assert pushed.startswith(released)
        assert read_size(pushed[len(released) :]) >= held_chars


@settings(deadline=None)
@example(" \xad\r", 0)
@given(st.text(max_size=40), st.integers(0, 30))
def test_held_text_is_counted_as_it_is_folded(text: str, size: int) -> None:
    ignorable = re.compile("[\u200b-\u200f\u00ad\u034f\u2060\ufeff\ufe00-\ufe0f]")
    folded = re.sub(r"\s+", " ", normalize("NFKC", ignorable.sub("", text)).casefold())
    assert read_size(text) <= len(folded)
    place, seen = place_before(text, size)
    assert read_size(text[place:], before=text[:place]) == seen
    assert seen >= size or place == 0
