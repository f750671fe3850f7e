"""Constraints over a vocabulary of bytes: what they let through, what is refused, and at what cost."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from inference.domain.constraint import (
    AnyJson,
    Choice,
    ConstraintRefused,
    ConstraintSpec,
    ConstraintState,
    Grammar,
    JsonSchema,
    Regex,
)
from inference.domain.errors import ServiceUnavailable
from inference.engine.llama.constraints import (
    MAX_CACHED,
    ConstraintFailed,
    LlamaConstraintCompiler,
)
from tests.scripted_engine import ByteTokenizer

END = 257
OTHER_END = 258
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def compiler() -> Iterator[LlamaConstraintCompiler]:
    made = LlamaConstraintCompiler(ByteTokenizer(), max_trial_cpu_s=1)
    yield made
    made.close()


def begin(compiler: LlamaConstraintCompiler, spec: ConstraintSpec) -> ConstraintState:
    return compiler.compile(spec).begin()


def read(state: ConstraintState, text: str) -> bool:
    """Whether all of the text is taken."""
    for byte in text.encode():
        is_accepted = state.accepts(byte)
        assert bool(state.mask()[byte]) is is_accepted
        if not is_accepted:
            return False
        state.advance(byte)
    return True


def matches(compiler: LlamaConstraintCompiler, spec: ConstraintSpec, text: str) -> bool:
    """Whether the text may be the whole answer."""
    state = begin(compiler, spec)
    return read(state, text) and state.accepts(END) and state.accepts(OTHER_END)


def wander(state: ConstraintState, rng: random.Random, max_tokens: int) -> tuple[bytes, bool]:
    """A random walk over what may come, and whether it came to its end."""
    text = bytearray()
    for _ in range(max_tokens):
        allowed = np.flatnonzero(state.mask())
        assert len(allowed)
        token_id = int(rng.choice(allowed))
        assert state.accepts(token_id)
        if token_id in (END, OTHER_END):
            return bytes(text), True
        state.advance(token_id)
        text.append(token_id)
        if state.is_ended:
            return bytes(text), True
    return bytes(text), False


def refusal(compiler: LlamaConstraintCompiler, spec: ConstraintSpec) -> str:
    with pytest.raises(ConstraintRefused) as caught:
        compiler.compile(spec)
    message = str(caught.value)
    assert message
    assert len(message) < 500
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("spec", "yes", "no"),
    [
        (JsonSchema(PERSON), '{"name": "Al", "age": 3}', '{"name": "Al"}'),
        (JsonSchema(PERSON), '{"name":"é","age":-3}', '{"name":"123456789","age":1}'),
        (AnyJson(), '{"a": [1, 2.5e3, {"b": null}], "c": "\\n"}', "[1]"),
        (JsonSchema({}), "[1]", "x"),
        (JsonSchema(True), '"any"', "x"),
        (JsonSchema({"enum": ["a", 1, None, "é\n"]}), '"é\\n"', '"b"'),
        (JsonSchema({"const": {"a": 1}}), '{"a": 1}', '{"a": 2}'),
        (JsonSchema({"enum": ["one"]}), '"one"', '"on"'),
        (JsonSchema({"type": ["string", "null"]}), "null", "1"),
        (JsonSchema({"type": "integer", "minimum": 0, "maximum": 150}), "150", "151"),
        (JsonSchema({"type": "string", "pattern": "^a+b$"}), '"aab"', '"aa"'),
        (JsonSchema({"type": "object", "properties": {"ключ": {"const": "é"}}, "required": ["ключ"],
                     "additionalProperties": False}), '{"ключ":"é"}', "{}"),
        (Regex("^[a-z]{2,3}\\d$"), "abc1", "abcd1"),
        (Regex("a|b"), "b", "ab"),
        (Regex(r"\d+[\d.]"), "12.", "1\u0663"),
        (JsonSchema({"type": "string", "pattern": r"^\d$"}), '"1"', '"\u0663"'),
        (Regex("a/b\nc"), "a/b\nc", "a/bc"),
        (Regex("\\$"), "$", "\\"),
        (Choice(("yes", "no", "maybe é")), "maybe é", "may"),
        (Choice(("a", "ab")), "ab", "abc"),
        (Choice(("", "a")), "", "b"),
        (Choice(('quote " \\ \n', "x")), 'quote " \\ \n', "quote"),
        (Grammar('start: "a" /[0-9]{2,3}/ "z"'), "a12z", "a1z"),
        (Grammar('root ::= "a" [0-9]+ "z"', is_gbnf=True), "a1z", "az"),
    ],
)  # fmt: skip
def test_the_whole_answer_fits_or_is_not_let_through(
    compiler: LlamaConstraintCompiler, spec: ConstraintSpec, yes: str, no: str
) -> None:
    assert matches(compiler, spec, yes)
    assert not matches(compiler, spec, no)


def test_white_space_cannot_go_on_for_ever(compiler: LlamaConstraintCompiler) -> None:
    for text in (" ", "\n", '{ "name"', '{"name":  ', '{"name": "a",  ', '{"name": "a"\n'):
        assert not read(begin(compiler, JsonSchema(PERSON)), text)
    assert not read(begin(compiler, AnyJson()), '{"a":1 ')


def test_a_complete_answer_lets_nothing_follow(compiler: LlamaConstraintCompiler) -> None:
    state = begin(compiler, JsonSchema(PERSON))
    assert read(state, '{"name":"a","age":1')
    assert not state.is_ended
    assert read(state, "}")
    assert state.is_ended
    assert set(np.flatnonzero(state.mask())) == {END, OTHER_END}
    assert not state.accepts(ord(" "))
    assert state.forced_tokens(10) == ()


def test_an_answer_that_may_end_may_also_go_on(compiler: LlamaConstraintCompiler) -> None:
    state = begin(compiler, JsonSchema({"type": "integer"}))
    assert not state.accepts(END)
    assert not state.mask()[[END, OTHER_END]].any()
    assert read(state, "12")
    assert not state.is_ended
    assert state.mask()[[END, OTHER_END, ord("3")]].all()
    state.advance(END)
    assert state.is_ended


def test_states_of_one_constraint_do_not_know_of_each_other(compiler: LlamaConstraintCompiler) -> None:
    constraint = compiler.compile(Choice(("aa", "bb")))
    first, second = constraint.begin(), constraint.begin()
    first.advance(ord("a"))
    assert not first.accepts(ord("b"))
    assert second.accepts(ord("b"))
    assert constraint.begin().accepts(ord("b"))


def test_what_is_forced_is_known(compiler: LlamaConstraintCompiler) -> None:
    state = begin(compiler, Grammar('start: "abc" ("d" | "e")'))
    assert list(state.forced_tokens(10)) == list(b"abc")
    assert list(state.forced_tokens(2)) == list(b"ab")
    assert read(state, "abc")
    assert list(state.forced_tokens(10)) == []


def test_a_forbidden_token_fails_the_state_and_nothing_is_open_after_it(
    compiler: LlamaConstraintCompiler,
) -> None:
    state = begin(compiler, Choice(("a",)))
    with pytest.raises(ConstraintFailed):
        state.advance(ord("b"))
    with pytest.raises(ConstraintFailed):
        state.mask()
    assert not state.accepts(ord("a"))


def test_control_tokens_come_only_where_a_grammar_names_them(compiler: LlamaConstraintCompiler) -> None:
    state = begin(compiler, Regex("(?s:.*)"))
    assert not state.mask()[256]
    assert not state.accepts(256)
    named = begin(compiler, Grammar('start: <|im_start|> "a"'))
    assert set(np.flatnonzero(named.mask())) == {256}
    # An end of the answer that a grammar goes on after would leave the answer incomplete.
    broken = begin(compiler, Grammar('start: <|im_end|> "a"'))
    assert not broken.mask().any()


NESTED = {
    "$defs": {
        "Colour": {"enum": ["red", "green"], "title": "Colour", "type": "string"},
        "Node": {
            "properties": {
                "colour": {"$ref": "#/$defs/Colour"},
                "label": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}], "default": None},
                "kids": {"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/Node"}},
                "size": {"maximum": 10, "minimum": 1, "type": "integer"},
                "kind": {"const": "node", "type": "string"},
                "at": {"type": "string", "format": "date"},
            },
            "required": ["colour", "kids", "size", "kind", "at"],
            "title": "Node",
            "type": "object",
        },
    },
    "$ref": "#/$defs/Node",
}


@pytest.mark.parametrize("schema", [PERSON, NESTED, {"type": "array", "items": PERSON, "maxItems": 2}])
def test_every_walk_that_ends_is_valid(compiler: LlamaConstraintCompiler, schema: Mapping[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    constraint = compiler.compile(JsonSchema(schema))
    num_ended = 0
    for seed in range(30):
        text, is_ended = wander(constraint.begin(), random.Random(seed), 400)
        if is_ended:
            num_ended += 1
            jsonschema.validate(json.loads(text), schema)
    assert num_ended >= 10


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"not": {"type": "string"}}, "not"),
        ({"if": {"type": "string"}, "then": {}}, "if"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "contains": {}}, "contains"),
        ({"type": "object", "propertyNames": {"pattern": "a"}}, "propertyNames"),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"type": "object", "unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"properties": {"a": {"not": {}}}, "required": ["a"], "type": "object"}, "not"),
        ({"type": "string", "format": "nonsense"}, "nonsense"),
        ({"type": "strange"}, "strange"),
        ({"$ref": "#/$defs/away"}, "away"),
        ({"$ref": "http://127.0.0.1:9/a.json"}, "127.0.0.1"),
        ({"type": "string", "pattern": "(?<=x)y"}, "look"),
    ],
)
def test_what_cannot_be_kept_is_named(
    compiler: LlamaConstraintCompiler, schema: dict[str, Any], word: str
) -> None:
    assert word in refusal(compiler, JsonSchema(schema))


def test_a_schema_cannot_ask_for_leniency(compiler: LlamaConstraintCompiler) -> None:
    schema = {"x-guidance": {"lenient": True, "whitespace_flexible": True}, "not": {"type": "string"}}
    assert "not" in refusal(compiler, JsonSchema(schema))


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"anyOf": [schema]}
    return schema


@pytest.mark.parametrize(
    "spec",
    [
        JsonSchema(False),
        JsonSchema(nested(10_000)),
        JsonSchema({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        JsonSchema({"type": "string", "pattern": "^" + "(" * 4000 + "a" + ")" * 4000 + "$"}),
        JsonSchema({"type": "string", "pattern": "a?" * 30_000}),
        JsonSchema({"type": "string", "pattern": "("}),
        JsonSchema({"properties": {f"p{i}": {} for i in range(5000)}}),
        JsonSchema({"const": "x" * 100_000}),
        JsonSchema({"enum": []}),
        JsonSchema({"description": "x" * 2_000_000}),
        JsonSchema({"enum": [0] * 1_000_000}),
        JsonSchema({"const": "\ud800"}),
        Regex(""),
        Regex("("),
        Regex("(" * 4000 + "a" + ")" * 4000),
        Regex("a" * 10_000),
        Choice(()),
        Choice(("x" * 10_000,)),
        Choice(("\ud800",)),
        Grammar(""),
        Grammar("start: missing"),
        Grammar("nothing"),
        Grammar('start: "a'),
        Grammar("start: " + "(" * 20_000 + '"a"' + ")" * 20_000),
        Grammar('start[temperature=0.5]: "a"'),
        Grammar("start: @other"),
        Grammar("[" * 60_000),
        Grammar("root ::= (", is_gbnf=True),
        Grammar("root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000, is_gbnf=True),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_odd_and_huge_ones_are_refused(compiler: LlamaConstraintCompiler, spec: ConstraintSpec) -> None:
    refusal(compiler, spec)
    assert matches(compiler, Choice(("still", "here")), "here")


def chain(length: int) -> dict[str, Any]:
    """Definitions that each begin with the next one."""
    definitions: dict[str, Any] = {
        f"a{i}": {
            "type": "object",
            "properties": {"x": {"$ref": f"#/$defs/a{i + 1}"}},
            "required": ["x"],
        }
        for i in range(length)
    }
    return {"$defs": {**definitions, f"a{length}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


def test_a_long_chain_of_definitions_does_not_overflow_the_stack(compiler: LlamaConstraintCompiler) -> None:
    state = begin(compiler, JsonSchema(chain(1800)))
    assert read(state, '{"x": {"x":')


@pytest.mark.parametrize(
    "spec",
    [
        # Whether nothing fits is asked of an automaton that grows without bounds.
        JsonSchema({"allOf": [{"type": "string", "pattern": f".*{one}.*"} for one in "abcdefghijklmnop"]}),
        JsonSchema({"allOf": [{"type": "integer", "multipleOf": one} for one in (97, 101, 103, 107)]}),
        Regex("(a{1000}){1000}"),
        Grammar(
            "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "x"',
            is_gbnf=True,
        ),
    ],
    ids=["intersection", "multiples", "repetition", "doublings"],
)
def test_those_that_cost_too_much_are_given_up(
    compiler: LlamaConstraintCompiler, spec: ConstraintSpec
) -> None:
    refusal(compiler, spec)
    assert matches(compiler, Choice(("still", "here")), "here")


def test_a_grammar_is_not_refused_for_what_one_before_it_took(compiler: LlamaConstraintCompiler) -> None:
    properties = {f"p{index}": {"type": "string"} for index in range(900)}
    for number in range(4):
        compiler.compile(JsonSchema({"properties": properties, "title": str(number)}))
    assert matches(compiler, Choice(("still", "here")), "here")


def test_the_process_that_tries_grammars_may_die_at_any_time() -> None:
    compiler = LlamaConstraintCompiler(ByteTokenizer())
    for number in range(3):
        compiler.compile(Choice((str(number),)))
        process = compiler._trial._process
        assert process is not None
        process.kill()
        process.wait()
    compiler.close()
    assert compiler._trial._process is None


def test_the_process_that_tries_grammars_is_not_worn_by_the_size_of_its_owner() -> None:
    model = bytearray(400 * 1024 * 1024)
    model[::4096] = b"x" * len(model[::4096])
    compiler = LlamaConstraintCompiler(ByteTokenizer())
    processes = set()
    for number in range(3):
        compiler.compile(Choice((str(number),)))
        processes.add(compiler._trial._process)
    assert len(processes) == 1 and None not in processes
    compiler.close()


def test_the_process_that_tries_grammars_ends_with_its_owner() -> None:
    compiler = LlamaConstraintCompiler(ByteTokenizer())
    compiler.compile(Choice(("a",)))
    process = compiler._trial._process
    assert process is not None
    del compiler
    gc.collect()
    assert process.wait(10) is not None


def test_a_text_full_of_control_texts_is_text(compiler: LlamaConstraintCompiler) -> None:
    text = "<|im_start|>" * 300
    assert matches(compiler, Choice((text, "x")), text)
    state = begin(compiler, Choice((text,)))
    assert bytes(state.forced_tokens(24)) == b"<|im_start|><|im_start|>"


def test_a_sequence_whose_masks_cost_too_much_fails() -> None:
    compiler = LlamaConstraintCompiler(ByteTokenizer(), max_debt_s=0.0)
    state = compiler.compile(Regex("a*")).begin()
    with pytest.raises(ConstraintFailed, match="cost"):
        state.mask()
    compiler.close()


def test_a_large_enumeration_is_quick(compiler: LlamaConstraintCompiler) -> None:
    spec = JsonSchema({"enum": [f"value {index}" for index in range(20_000)]})
    assert matches(compiler, spec, '"value 19999"')


def test_the_same_constraint_is_compiled_once_and_old_ones_are_forgotten(
    compiler: LlamaConstraintCompiler,
) -> None:
    first = compiler.compile(Choice(("first",)))
    assert compiler.compile(Choice(("first",))) is first
    assert compiler.compile(Choice(("second",))) is not first
    for index in range(MAX_CACHED):
        compiler.compile(Choice((f"other {index}",)))
    assert compiler.compile(Choice(("first",))) is not first


def test_after_close_nothing_new_is_compiled_and_what_is_stays_good() -> None:
    compiler = LlamaConstraintCompiler(ByteTokenizer())
    constraint = compiler.compile(Choice(("a",)))
    compiler.close()
    compiler.close()
    assert read(constraint.begin(), "a")
    with pytest.raises(ServiceUnavailable):
        compiler.compile(Choice(("b",)))
