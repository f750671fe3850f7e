from __future__ import annotations

import json
from typing import Any

import pytest

from inference.domain.constraint import (
    AnyJson,
    Choice,
    ConstraintSpec,
    Grammar,
    JsonSchema,
    Regex,
    Tag,
    TaggedText,
)
from tests.unit.openai.bodies import chat, chat_refusal, completion, completion_refusal

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
STRUCTURES = {
    "type": "structural_tag",
    "structures": [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}],
    "triggers": ["<f"],
}


def json_schema(**fields: object) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, **fields}}


READ = [
    ({"response_format": {"type": "json_object"}}, AnyJson(), "response_format"),
    ({"response_format": json_schema()}, JsonSchema(SCHEMA), "response_format.json_schema.schema"),
    ({"response_format": json_schema(strict=True)}, JsonSchema(SCHEMA), "response_format.json_schema.schema"),
    (
        {"response_format": json_schema(strict=False)},
        JsonSchema(SCHEMA),
        "response_format.json_schema.schema",
    ),
    ({"response_format": json_schema(schema=True)}, JsonSchema(True), "response_format.json_schema.schema"),
    ({"json_schema": SCHEMA}, JsonSchema(SCHEMA), "json_schema"),
    ({"json_schema": {}}, JsonSchema({}), "json_schema"),
    ({"grammar": "root ::= x"}, Grammar("root ::= x", is_gbnf=True), "grammar"),
    ({"structured_outputs": {"json": SCHEMA}}, JsonSchema(SCHEMA), "structured_outputs.json"),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, JsonSchema(SCHEMA), "structured_outputs.json"),
    ({"structured_outputs": {"json_object": True}}, AnyJson(), "structured_outputs.json_object"),
    ({"structured_outputs": {"regex": "a+"}}, Regex("a+"), "structured_outputs.regex"),
    ({"structured_outputs": {"regex": "a+", "choice": None}}, Regex("a+"), "structured_outputs.regex"),
    ({"structured_outputs": {"choice": ["a", "b", "a"]}}, Choice(("a", "b")), "structured_outputs.choice"),
    (
        {"structured_outputs": {"grammar": 'start: "a"', "disable_any_whitespace": True}},
        Grammar('start: "a"'),
        "structured_outputs.grammar",
    ),
    (
        {"structured_outputs": {"grammar": 'root ::= "a"'}},
        Grammar('root ::= "a"', is_gbnf=True),
        "structured_outputs.grammar",
    ),
    (
        {"structured_outputs": {"structural_tag": json.dumps(STRUCTURES)}},
        TaggedText((Tag("<f>", JsonSchema(SCHEMA), "</f>"),), ("<f",)),
        "structured_outputs.structural_tag",
    ),
    (
        {"response_format": STRUCTURES},
        TaggedText((Tag("<f>", JsonSchema(SCHEMA), "</f>"),), ("<f",)),
        "response_format",
    ),
]


@pytest.mark.parametrize(("fields", "spec", "param"), READ)
def test_each_way_of_saying_it_is_read(fields: dict[str, Any], spec: ConstraintSpec, param: str) -> None:
    for request in (chat(**fields), completion(**fields)):
        assert request.constraint == spec
        assert request.constraint_param == param
        assert request.ignored_parameters == ()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": None},
        {"response_format": {"type": "text"}},
        {"json_schema": None},
        {"grammar": ""},
        {"structured_outputs": None},
    ],
)
def test_nothing_is_asked(fields: dict[str, Any]) -> None:
    assert chat(**fields).constraint is None
    assert chat(**fields).constraint_param == ""


def test_tags_with_formats_of_their_own() -> None:
    tags = [
        {"begin": "<a>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</a>"},
        {"begin": "<b>", "content": {"type": "any_text"}, "end": "</b>"},
        {"begin": "<c>", "content": {"type": "regex", "pattern": "x+"}},
    ]
    expected = (
        Tag("<a>", JsonSchema(SCHEMA), "</a>"),
        Tag("<b>", Regex("(?s:.*)"), "</b>"),
        Tag("<c>", Regex("x+")),
    )
    triggered = {"type": "triggered_tags", "triggers": ["<"], "tags": tags, "at_least_one": True}
    request = chat(structured_outputs={"structural_tag": {"type": "structural_tag", "format": triggered}})
    assert request.constraint == TaggedText(expected, ("<",), min_tags=1)
    once = {**triggered, "stop_after_first": True}
    request = chat(structured_outputs={"structural_tag": {"type": "structural_tag", "format": once}})
    assert request.constraint == TaggedText(expected, ("<",), has_later_text=False, min_tags=1, max_tags=1)
    listed = {"type": "tags_with_separator", "separator": "\n", "tags": tags}
    request = chat(structured_outputs={"structural_tag": {"type": "structural_tag", "format": listed}})
    assert request.constraint == TaggedText(expected, (), has_free_text=False, separator="\n")


REFUSED = [
    ({"response_format": "json"}, "response_format"),
    ({"response_format": 5}, "response_format"),
    ({"response_format": {}}, "response_format.type"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": 1}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.name"),
    ({"response_format": json_schema(name="a b")}, "response_format.json_schema.name"),
    ({"response_format": json_schema(name="a\n")}, "response_format.json_schema.name"),
    ({"response_format": json_schema(name="x" * 65)}, "response_format.json_schema.name"),
    ({"response_format": json_schema(schema=None)}, "response_format.json_schema.schema"),
    ({"response_format": json_schema(schema=5)}, "response_format.json_schema.schema"),
    ({"response_format": json_schema(schema="{}")}, "response_format.json_schema.schema"),
    ({"response_format": json_schema(strict="yes")}, "response_format.json_schema.strict"),
    ({"json_schema": "x"}, "json_schema"),
    ({"json_schema": []}, "json_schema"),
    ({"grammar": {"a": 1}}, "grammar"),
    ({"structured_outputs": []}, "structured_outputs"),
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
    ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
    ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
    ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    ({"structured_outputs": {"choice": ["a", 1]}}, "structured_outputs.choice"),
    ({"structured_outputs": {"choice": "a"}}, "structured_outputs.choice"),
    ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    ({"structured_outputs": {"json": "[]"}}, "structured_outputs.json"),
    ({"structured_outputs": {"regexp": "a"}}, "structured_outputs.regexp"),
    (
        {"structured_outputs": {"regex": "a", "whitespace_pattern": " "}},
        "structured_outputs.whitespace_pattern",
    ),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
    ({"structured_outputs": {"structural_tag": {}}}, "structured_outputs.structural_tag.type"),
    ({"response_format": {"type": "structural_tag"}}, "response_format.structures"),
    ({"response_format": {**STRUCTURES, "triggers": ["<g"]}}, "response_format.triggers"),
    ({"response_format": {**STRUCTURES, "triggers": [""]}}, "response_format.triggers"),
    ({"response_format": {**STRUCTURES, "structures": []}}, "response_format.structures"),
    ({"response_format": {**STRUCTURES, "structures": [5]}}, "response_format.structures"),
    (
        {"response_format": {**STRUCTURES, "structures": [{"begin": "<f", "end": ""}]}},
        "response_format.structures[0].schema",
    ),
    (
        {"response_format": {"type": "structural_tag", "format": {"type": "sequence"}}},
        "response_format.format.type",
    ),
    # Two at once: one of them would be lost.
    ({"response_format": {"type": "json_object"}, "json_schema": {}}, "json_schema"),
    ({"json_schema": {}, "grammar": "root ::= x"}, "grammar"),
    ({"response_format": json_schema(), "structured_outputs": {"regex": "a"}}, "structured_outputs"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_what_is_wrong_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    for error in (chat_refusal(**fields), completion_refusal(**fields)):
        assert error.status == 400
        assert error.param == param
        assert param in error.message


@pytest.mark.parametrize("text", ["\n" * 500_000, " " * 500_000, "a " * 250_000, "a" * 500_000])
def test_the_notation_of_a_long_grammar_is_told_quickly(text: str) -> None:
    request = chat(structured_outputs={"grammar": text})
    assert request.constraint == Grammar(text)
