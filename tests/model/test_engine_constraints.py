"""Constraints in the engine, with real vocabularies: batches, endings, preemption, many random answers."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inference.domain.constraint import (
    AnyJson,
    Choice,
    ConstraintSpec,
    Grammar,
    JsonSchema,
    OutputConstraint,
    Regex,
    Tag,
    TaggedText,
)
from inference.domain.events import Failed, Finished, FinishReason, TokenBatch
from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaConstraintCompiler, LlamaModel
from tests.model.stepped_engine import SteppedEngine
from tests.model.tiny_model import write_spm_model
from tests.unit.engine.scripted_engine_parts import RecordingSink

PROMPT = "<|im_start|>user\nDescribe Alice as JSON.<|im_end|>\n<|im_start|>assistant\n"
Short = Annotated[str, Field(max_length=12)]


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Cat(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["dog"]
    name: Short


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Short
    age: int = Field(ge=0, le=150)
    colour: Colour
    mood: Literal["good", "bad", 3] | None
    nick: Short | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    scores: list[Annotated[int, Field(ge=0, le=10)]] = Field(max_length=2)


class Tree(BaseModel):
    model_config = ConfigDict(extra="forbid")
    label: Short
    branches: list[Tree] = Field(max_length=1)


@pytest.fixture(scope="module")
def tiny_compiler(tiny_model: LlamaModel) -> Iterator[LlamaConstraintCompiler]:
    compiler = LlamaConstraintCompiler(tiny_model.tokenizer)
    yield compiler
    compiler.close()


@pytest.fixture
def engine(tiny_model: LlamaModel) -> Iterator[SteppedEngine]:
    with SteppedEngine(tiny_model, EngineConfig(num_lanes=8)) as made:
        yield made
        made.check_all_free()


def answer(engine: SteppedEngine, sink: RecordingSink) -> str:
    token_ids = [one for event in sink.events if isinstance(event, TokenBatch) for one in event.token_ids]
    return b"".join(engine.model.tokenizer.pieces[one] for one in token_ids).decode()


def ending(sink: RecordingSink) -> FinishReason:
    event = sink.events[-1]
    assert isinstance(event, Finished), event
    return event.reason


def ask(
    engine: SteppedEngine, constraint: OutputConstraint, *, seed: int = 0, **more: object
) -> RecordingSink:
    name = f"{id(constraint)}/{len(engine.submissions)}"
    settings: dict[str, object] = {"max_tokens": 200, "sampling": SamplingParams(seed=seed), **more}
    return engine.submit(name, PROMPT, constraint=constraint, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Person, Tree])
def test_what_pydantic_asks_for_comes_back_valid_every_time(
    engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler, kind: type[BaseModel]
) -> None:
    constraint = tiny_compiler.compile(JsonSchema(kind.model_json_schema()))
    sinks = [ask(engine, constraint, seed=seed, max_tokens=400) for seed in range(40)]
    engine.run()
    num_whole = 0
    for sink in sinks:
        if ending(sink) is FinishReason.STOP:
            num_whole += 1
            kind.model_validate_json(answer(engine, sink))
        else:
            with pytest.raises(ValidationError):
                kind.model_validate_json(answer(engine, sink))
    assert num_whole > 30


def test_the_real_model_writes_what_was_asked_for(model: LlamaModel) -> None:
    compiler = LlamaConstraintCompiler(model.tokenizer)
    constraint = compiler.compile(JsonSchema(Person.model_json_schema()))
    with SteppedEngine(model, EngineConfig(num_lanes=4)) as engine:
        sinks = [ask(engine, constraint, seed=seed) for seed in range(4)]
        engine.run()
        for sink in sinks:
            assert ending(sink) is FinishReason.STOP
            Person.model_validate_json(answer(engine, sink))
        engine.check_all_free()
    compiler.close()


TOOL = Tag(
    '<tool_call>\n{"name": "f", "arguments": ', JsonSchema(Tree.model_json_schema()), "}\n</tool_call>"
)
OTHER_TOOL = Tag('<tool_call>\n{"name": "g", "arguments": ', JsonSchema({"enum": [1, 2]}), "}\n</tool_call>")
CALLS = TaggedText((TOOL, OTHER_TOOL), ("<tool_call>",), has_free_text=False, min_tags=1, separator="\n")

PATTERNS: list[tuple[ConstraintSpec, str]] = [
    (Regex("[ab]{1,20}@[0-9]{2}"), r"[ab]{1,20}@[0-9]{2}"),
    (Choice(("yes", "no", "maybe é", "yes!")), r"yes!?|no|maybe é"),
    (Grammar('start: "<" WORD ("," WORD)? ">"\nWORD: /[a-z]{1,9}/'), r"<[a-z]{1,9}(,[a-z]{1,9})?>"),
    (Grammar('root ::= "x" [0-9] [0-9]? "y"', is_gbnf=True), r"x[0-9]{1,2}y"),
    (
        TaggedText((OTHER_TOOL,), (), has_free_text=False, min_tags=1, max_tags=2, separator="\n"),
        r'(\n?<tool_call>\n{"name": "g", "arguments": [12]}\n</tool_call>){1,2}',
    ),
    (
        TaggedText((Tag("<p>", Regex("(?s:.{0,9})"), "</p>"),), (), has_free_text=False, prefix="[",
                   suffix="]", min_tags=1, max_tags=1),
        r"(?s)\[<p>.{0,9}</p>\]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "pattern"), PATTERNS)
@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(temperature=0.0),
        SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, seed=1),
        SamplingParams(seed=2, repeat_penalty=1.3, presence_penalty=0.5, logit_bias=((5, -100.0),)),
        SamplingParams(seed=3, typical_p=0.9, stages=(SamplerStage.TYPICAL_P, SamplerStage.TEMPERATURE)),
        SamplingParams(seed=4, mirostat_mode=2),
    ],
    ids=["greedy", "wide", "penalties", "stages", "mirostat"],
)
def test_every_kind_holds_with_every_way_of_drawing(
    engine: SteppedEngine,
    tiny_compiler: LlamaConstraintCompiler,
    spec: ConstraintSpec,
    pattern: str,
    sampling: SamplingParams,
) -> None:
    sinks = [ask(engine, tiny_compiler.compile(spec), sampling=sampling) for _ in range(2)]
    engine.run()
    for sink in sinks:
        assert ending(sink) is FinishReason.STOP
        assert re.fullmatch(pattern, answer(engine, sink))


def test_the_same_seed_gives_the_same_answer_alone_and_in_a_crowd(
    engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler
) -> None:
    constraint = tiny_compiler.compile(JsonSchema(Person.model_json_schema()))
    alone = ask(engine, constraint, seed=7)
    engine.run()
    crowd = [ask(engine, constraint, seed=seed) for seed in range(6)]
    free = [engine.submit(f"free{index}", PROMPT, max_tokens=60) for index in range(3)]
    again = ask(engine, constraint, seed=7)
    engine.run()
    assert answer(engine, again) == answer(engine, alone)
    for sink in crowd:
        Person.model_validate_json(answer(engine, sink))
    # Those that are free are not touched by it.
    assert len({answer(engine, sink) for sink in free}) == 1
    unconstrained = engine.submit("free alone", PROMPT, max_tokens=60)
    engine.run()
    assert answer(engine, unconstrained) == answer(engine, free[0])


def test_a_constraint_ends_the_answer_whatever_the_request_says_about_its_end(
    engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler
) -> None:
    constraint = tiny_compiler.compile(Choice(("yes", "no")))
    for settings in ({"ignore_eos": True}, {"min_tokens": 50}):
        sink = ask(engine, constraint, max_tokens=60, **settings)
        engine.run()
        assert ending(sink) is FinishReason.STOP
        assert answer(engine, sink) in ("yes", "no")


def test_where_an_answer_may_go_on_it_does_until_its_minimum(
    engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler
) -> None:
    constraint = tiny_compiler.compile(Regex("[ab]+"))
    sink = ask(engine, constraint, min_tokens=30, max_tokens=40)
    endless = ask(engine, constraint, ignore_eos=True, max_tokens=40)
    engine.run()
    for one in (sink, endless):
        assert re.fullmatch("[ab]+", answer(engine, one))
    assert len([event for event in sink.events if isinstance(event, TokenBatch)]) >= 30
    assert ending(endless) is FinishReason.LENGTH


def test_an_answer_that_is_whole_at_its_last_token_is_not_cut_off(
    engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler
) -> None:
    first = ask(engine, tiny_compiler.compile(Choice(("maybe é",))))
    engine.run()
    num_tokens = sum(len(event.token_ids) for event in first.events if isinstance(event, TokenBatch))
    again = ask(engine, tiny_compiler.compile(Choice(("maybe é",))), max_tokens=num_tokens)
    short = ask(engine, tiny_compiler.compile(Choice(("maybe é",))), max_tokens=num_tokens - 1)
    engine.run()
    assert (ending(again), answer(engine, again)) == (FinishReason.STOP, "maybe é")
    assert ending(short) is FinishReason.LENGTH
    assert "maybe é".startswith(answer(engine, short).rstrip("\ufffd"))


def test_logprobs_are_those_of_the_model_itself(
    engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler
) -> None:
    constraint = tiny_compiler.compile(Choice(("zebra",)))
    forced = ask(engine, constraint, num_top_logprobs=2)
    free = engine.submit("free", PROMPT, max_tokens=1, num_top_logprobs=2)
    engine.run()
    batches = [event for event in forced.events if isinstance(event, TokenBatch)]
    assert all(len(batch.logprobs) == len(batch.token_ids) == 1 for batch in batches)
    first = batches[0].logprobs[0]
    (own,) = [event for event in free.events if isinstance(event, TokenBatch)]
    assert first.top == own.logprobs[0].top
    assert first.logprob < first.top[-1][1]


def test_preempted_and_held_ones_go_on_where_they_were(
    tiny_model: LlamaModel, tiny_compiler: LlamaConstraintCompiler
) -> None:
    constraint = tiny_compiler.compile(JsonSchema(Person.model_json_schema()))
    with SteppedEngine(tiny_model, EngineConfig(num_lanes=8)) as engine:
        alone = [ask(engine, constraint, seed=seed) for seed in range(8)]
        engine.run()
        expected = [answer(engine, sink) for sink in alone]
    # Room for the prompts, and for hardly more.
    with SteppedEngine(tiny_model, EngineConfig(num_lanes=8, num_cells=256, max_batch_tokens=64)) as engine:
        sinks = [ask(engine, constraint, seed=seed) for seed in range(8)]
        names = list(engine.submissions)
        for step in range(20_000):
            if step % 7 == 3:
                engine.hold(names[step % 8])
            if step % 7 == 5:
                for name in names:
                    engine.resume(name)
            if not engine.core.step() and step % 7 == 6:
                break
        assert engine.core._counters.num_preemptions > 0
        assert [answer(engine, sink) for sink in sinks] == expected
        engine.check_all_free()


def test_a_cancelled_one_leaves_nothing_behind(
    engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler
) -> None:
    constraint = tiny_compiler.compile(AnyJson())
    sink = ask(engine, constraint, max_tokens=400)
    for _ in range(5):
        engine.core.step()
    engine.cancel(next(iter(engine.submissions)))
    engine.run()
    engine.check_all_free()
    assert not any(isinstance(event, Finished | Failed) for event in sink.events)


class Broken:
    """Fails in its third token."""

    is_ended = False

    def __init__(self) -> None:
        self.num_left = 2

    def begin(self) -> Broken:
        return Broken()

    def accepts(self, token_id: int) -> bool:
        return self.num_left > 0

    def mask(self) -> object:
        raise RuntimeError("it broke")

    def advance(self, token_id: int) -> None:
        self.num_left -= 1

    def forced_tokens(self, max_tokens: int) -> tuple[int, ...]:
        return ()


def test_one_that_breaks_fails_alone(engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler) -> None:
    broken = ask(engine, Broken())
    staged = ask(engine, Broken(), sampling=SamplingParams(seed=1, mirostat_mode=2))
    other = ask(engine, tiny_compiler.compile(Choice(("yes", "no"))))
    free = engine.submit("free", PROMPT, max_tokens=20, ignore_eos=True)
    engine.run()
    for sink in (broken, staged):
        event = sink.events[-1]
        assert isinstance(event, Failed)
        assert event.error.code == "generation_failed"
    assert answer(engine, other) in ("yes", "no")
    assert ending(free) is FinishReason.LENGTH


def test_free_text_until_a_trigger_and_then_only_the_tag(
    tiny_model: LlamaModel, tiny_compiler: LlamaConstraintCompiler
) -> None:
    tokenizer = tiny_model.tokenizer

    def accepts(spec: TaggedText, text: str) -> tuple[bool, bool]:
        """Whether the text may come, and whether the answer may end with it."""
        state = tiny_compiler.compile(spec).begin()
        for token_id in tokenizer.tokenize(text, add_special=False, parse_special=True):
            if not state.accepts(token_id):
                return False, False
            state.advance(token_id)
        return True, state.accepts(min(tokenizer.end_token_ids))

    free = TaggedText((TOOL, OTHER_TOOL), ("<tool_call>",))
    call = '<tool_call>\n{"name": "g", "arguments": 1}\n</tool_call>'
    assert accepts(free, "Hello < tool_call> é\n") == (True, True)
    assert accepts(free, "Hello <tool_call>") == (True, False)
    assert accepts(free, "Hello <tool_call> I say") == (False, False)
    assert accepts(free, f"Hello {call} and {call} bye") == (True, True)
    assert accepts(free, call.replace("1", "3")) == (False, False)
    once = TaggedText((TOOL, OTHER_TOOL), ("<tool_call>",), max_tags=1)
    assert accepts(once, "Hello") == (True, True)
    assert accepts(once, f"Hello {call}") == (True, True)
    assert accepts(once, f"Hello {call} and") == (False, False)
    twice = TaggedText((OTHER_TOOL,), ("<tool_call>",), min_tags=1, max_tags=2)
    assert accepts(twice, "Hello") == (True, False)
    assert accepts(twice, f"Hello {call} and") == (True, True)
    assert accepts(twice, f"Hello {call} and <tool_call>") == (True, False)
    assert accepts(twice, f"Hello {call} and {call}") == (True, True)
    assert accepts(twice, f"Hello {call} and {call}{call}") == (False, False)
    calls_last = TaggedText((OTHER_TOOL,), ("<tool_call>",), has_later_text=False, separator="\n")
    assert accepts(calls_last, "Hello") == (True, True)
    assert accepts(calls_last, f"Hello {call}") == (True, True)
    assert accepts(calls_last, f"Hello {call}\n{call}") == (True, True)
    assert accepts(calls_last, f"Hello {call} and") == (False, False)
    needed = TaggedText((OTHER_TOOL,), ("<tool_call>",), min_tags=1, max_tags=1, has_later_text=False)
    assert accepts(needed, "Hello") == (True, False)
    assert accepts(needed, f"Hello {call}") == (True, True)
    # Control tokens are meant where their text stands, and others may stand in free text as ever.
    control = TaggedText(
        (Tag("<|im_start|>f\n", JsonSchema({"enum": [1]}), "<|im_end|>"),), ("<|im_start|>",)
    )
    assert accepts(control, "Hello <repo_name>you<|im_start|>f\n1") == (True, True)
    assert accepts(control, "Hello <|im_start|>g") == (False, False)


def test_an_answer_in_tags_is_whole(engine: SteppedEngine, tiny_compiler: LlamaConstraintCompiler) -> None:
    sinks = [ask(engine, tiny_compiler.compile(CALLS), seed=seed, max_tokens=300) for seed in range(4)]
    engine.run()
    pattern = r'<tool_call>\n{"name": "([fg])", "arguments": (.*)}\n</tool_call>'
    num_calls = 0
    for sink in sinks:
        calls = re.split(r"(?<=</tool_call>)\n", answer(engine, sink))
        if ending(sink) is FinishReason.LENGTH:
            calls.pop()
        for call in calls:
            found = re.fullmatch(pattern, call)
            assert found
            num_calls += 1
            if found[1] == "f":
                Tree.model_validate_json(found[2])
            else:
                assert json.loads(found[2]) in (1, 2)
    assert num_calls >= len(sinks)


def test_another_family_of_vocabulary(other_family_path: Path) -> None:
    model = LlamaModel.load(other_family_path, EngineConfig())
    compiler = LlamaConstraintCompiler(model.tokenizer)
    with SteppedEngine(model, EngineConfig(num_lanes=2)) as engine:
        person = ask(engine, compiler.compile(JsonSchema(Person.model_json_schema())))
        # Its roles are user-defined tokens: text, which a literal may be written with.
        literal = ask(engine, compiler.compile(Choice(("<|im_start|>x",))))
        engine.run()
        Person.model_validate_json(answer(engine, person))
        assert answer(engine, literal) == "<|im_start|>x"
    compiler.close()
    model.close()


def test_a_vocabulary_whose_texts_begin_with_a_space(tmp_path: Path) -> None:
    model = LlamaModel.load(write_spm_model(tmp_path / "spm.gguf"), EngineConfig())
    compiler = LlamaConstraintCompiler(model.tokenizer)
    tokenizer = model.tokenizer
    with SteppedEngine(model, EngineConfig(num_lanes=4)) as engine:
        choices = [ask(engine, compiler.compile(Choice(("yes", "maybe", " no"))), seed=n) for n in range(8)]
        literal = ask(engine, compiler.compile(Choice(("name é\n\U0001f600",))))
        people = [
            ask(engine, compiler.compile(JsonSchema(Tree.model_json_schema())), seed=n) for n in range(8)
        ]
        engine.run()
        assert {answer(engine, sink) for sink in choices} <= {"yes", "maybe", " no"}
        assert answer(engine, literal) == "name é\n\U0001f600"
        for sink in people:
            if ending(sink) is FinishReason.STOP:
                Tree.model_validate_json(answer(engine, sink))
        # Forced text is written without a space that nobody asked for.
        state = compiler.compile(Regex(r'\{"name": [0-9]')).begin()
        forced = state.forced_tokens(50)
        assert b"".join(tokenizer.pieces[one] for one in forced).decode() in ('{"name":', '{"name": ')
        state = compiler.compile(Regex("12*")).begin()
        assert not state.mask()[2]
        state.advance(tokenizer.pieces.index(b"12"))
        assert state.accepts(2)
        assert not state.accepts(1)
        engine.check_all_free()
    compiler.close()
    model.close()
