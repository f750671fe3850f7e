"""Grammars as they are written, where what they let through does not show it."""

from __future__ import annotations

import json

import pytest

from inference.domain.constraint import (
    AnyJson,
    Choice,
    ConstraintRefused,
    JsonSchema,
    Regex,
    Tag,
    TaggedText,
)
from inference.engine.llama.constraint_bounds import MAX_TAGS
from inference.engine.llama.constraint_grammar import GrammarWriter

CONTROLS = {"<a>": 7, "<ab>": 8, "<end>": 9, "[CALL]": 11, "<r1>": 12, "<r2>": 13}
ENDS = frozenset({9})
NOTHING = Choice(("x",))


def write(spec: TaggedText) -> str:
    grammars = json.loads(GrammarWriter(CONTROLS, ENDS, lark_of=str).write(spec))["grammars"]
    assert [grammar["name"] for grammar in grammars] == [f"g{index}" for index in range(len(grammars))]
    lark = grammars[0]["lark_grammar"]
    assert isinstance(lark, str)
    return lark


def alone(tag: Tag, **more: object) -> TaggedText:
    return TaggedText((tag,), (), has_free_text=False, min_tags=1, max_tags=1, **more)  # type: ignore[arg-type]


def test_control_tokens_are_written_by_their_id_and_ends_are_left_to_the_model() -> None:
    lark = write(alone(Tag('[CALL]f<ab>"', AnyJson(), "</f><end>")))
    assert r'<[11]> "f" <[8]> "\"" @g1 "</f>"' in lark
    assert "<[9]>" not in lark


def test_an_end_in_the_middle_is_refused() -> None:
    with pytest.raises(ConstraintRefused, match="middle"):
        write(alone(Tag("a<end>b", AnyJson())))


def test_free_text_may_hold_control_tokens_but_no_end_and_no_trigger() -> None:
    lark = write(TaggedText((Tag("[CALL]f", AnyJson()),), ("[CALL]",)))
    assert "<[7-8,12-13]>" in lark
    assert lark.count("<[11]>") == 1


def test_text_in_a_tag_ends_where_the_tag_does() -> None:
    lark = write(alone(Tag("<p>", Regex("(?s:.*)"), "</p>\n")))
    assert r'[suffix="</p>\n"]: /(?s:.*)/' in lark


def test_a_json_schema_has_bounded_white_space_and_no_leniency() -> None:
    written = json.loads(
        GrammarWriter(CONTROLS, ENDS, lark_of=str).write(
            JsonSchema({"type": "object", "x-guidance": {"lenient": True}})
        )
    )
    options = written["grammars"][0]["json_schema"]["x-guidance"]
    assert options["whitespace_flexible"] is False
    assert options["lenient"] is False


@pytest.mark.parametrize(
    "spec",
    [
        TaggedText((), ("<",)),
        TaggedText((Tag("f", NOTHING),), ("<",)),
        TaggedText((Tag("f", NOTHING),), ()),
        TaggedText((Tag("<f", NOTHING),), ("<",), prefix="["),
        TaggedText((Tag("<f", NOTHING),), ("<",), max_tags=0),
        TaggedText((Tag("<f", NOTHING),), ("<",), min_tags=2, max_tags=1),
        TaggedText((Tag("x<a>f", NOTHING),), ("x<a>",)),
        TaggedText(tuple(Tag(f"<f{index}", NOTHING) for index in range(MAX_TAGS + 1)), ("<",)),
    ],
)
def test_what_cannot_be_said_is_refused(spec: TaggedText) -> None:
    with pytest.raises(ConstraintRefused):
        write(spec)
