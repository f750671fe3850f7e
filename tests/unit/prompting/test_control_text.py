from __future__ import annotations

import time
from itertools import pairwise

import pytest

from inference.prompting.control_text import ControlTexts, PromptMarks, Segment
from tests.unit.prompting.byte_tokenizer import CONTROLS


def pieces(controls: ControlTexts, text: str) -> list[str]:
    bounds = [0, *controls.cuts(text), len(text)]
    return [text[begin:end] for begin, end in pairwise(bounds)]


@pytest.mark.parametrize(
    "text",
    ["", "plain", "a < b", "<b>bold</b>", "> quote", "im_end", "|>", "x <|im_e nd|>", "<|im_start", "s>"],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    controls = ControlTexts(CONTROLS)
    if text != "<|im_start":  # that one could be completed by what follows it
        assert controls.cuts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "<|im_end|>",
        "a<|im_end|>b",
        "<s>",
        "</s></s>",
        "<<s>>",
        "<|im_end|>>x",
        "<|im_start|><|im_end|>",
        "<|im_<|im_end|>end|>",
        "§",
        "a§b",
        "§§",
        "x" * 50 + "<s>" * 50,
        " <s> ",
    ],
)
def test_no_piece_of_a_callers_text_holds_a_whole_control_text(text: str) -> None:
    for piece in pieces(ControlTexts(CONTROLS), text):
        assert piece == "§" or not any(control in piece for control in CONTROLS)


def test_overlapping_control_texts_are_all_cut() -> None:
    controls = ControlTexts(["aba", "bab", "ababab"])
    for piece in pieces(controls, "xabababababx"):
        assert "aba" not in piece
        assert "bab" not in piece


@pytest.mark.parametrize("text", ["<|im_", "x <", "x <|im_end|", "<|im_end|>>", "x < \n"])
def test_a_text_that_ends_inside_a_control_text_is_cut_there(text: str) -> None:
    assert len(text.rstrip()) in ControlTexts(CONTROLS).cuts(text)


def test_the_start_matters_only_for_templates_that_open_a_control_text() -> None:
    controls = ("<|im_start|>", "<|im_end|>")
    ordinary = ControlTexts(controls, ["<|im_start|>user\n", "<|im_end|>"])
    opening = ControlTexts(controls, ["<|im_start|>user\n", "<|"])
    for text in ("im_end|> and", "|>", "> quote", "im_end", "im"):
        assert 0 not in ordinary.cuts(text)
        assert 0 in opening.cuts(text)
    assert 2 in opening.cuts("  im_end|>")
    for text in ("hello", "", "  "):
        assert opening.cuts(text) == []


def test_a_vocabulary_without_control_tokens() -> None:
    assert ControlTexts([]).cuts("<s>") == []
    assert ControlTexts([""]).cuts("<s>") == []


def test_marks_come_off_again() -> None:
    marks = PromptMarks(ControlTexts(CONTROLS))
    guarded = marks.guard("a<s>b<s>c</s>")
    assert guarded != "a<s>b<s>c</s>"
    segments = marks.segments(f"<|im_start|>{guarded}<|im_end|>{marks.guard('plain')}")
    assert segments == [
        Segment("<|im_start|>a<", False),
        Segment("s>b<s>c<", True),
        Segment("/s><|im_end|>plain", False),
    ]


def test_text_without_control_texts_stays_one_segment() -> None:
    marks = PromptMarks(ControlTexts(CONTROLS))
    text = marks.guard("hello <b>")
    assert text == "hello <b>"
    assert marks.segments(f"<s>{text}") == [Segment("<s>hello <b>", False)]


def test_marks_differ_between_renderings() -> None:
    controls = ControlTexts(CONTROLS)
    assert PromptMarks(controls).guard("<s>") != PromptMarks(controls).guard("<s>")


def test_a_mark_that_a_template_dropped_does_no_harm() -> None:
    marks = PromptMarks(ControlTexts(CONTROLS))
    guarded = marks.guard("one<s>two<s>three<s>four")
    for kept in (guarded[len(guarded) // 2 :], guarded[: len(guarded) // 2]):
        for segment in marks.segments(f"<|im_start|>{kept}"):
            assert segment.is_plain or "<s>" not in segment.text


def test_thousands_of_reserved_tokens_and_a_long_hostile_text_take_no_time() -> None:
    controls = ControlTexts([f"<|reserved_special_token_{index}|>" for index in range(5_000)])
    begin = time.perf_counter()
    assert controls.cuts("<|reserved_special_token_" * 20_000) == [500_000]
    assert len(controls.cuts("<|reserved_special_token_4999|>" * 10_000)) == 10_000
    assert controls.cuts("<" * 500_000 + " ") == [500_000]
    assert time.perf_counter() - begin < 3
