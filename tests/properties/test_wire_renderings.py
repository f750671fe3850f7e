"""Whatever an answer is made of and however it is cut, a stream adds up to the whole answer: on Anthropic's
wire and on that of the Responses API, each read as its own client reads it."""

from __future__ import annotations

import json
from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai._types import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from inference.anthropic.rendering import MessageRendering
from inference.domain.events import FinishReason, Usage
from inference.domain.generation_result import GenerationResult
from inference.domain.message_deltas import (
    Answer,
    ContentDelta,
    MessageBuilder,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.domain.timings import Timings
from inference.openai.responses.rendering import ResponseRendering

ANTHROPIC_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
OPENAI_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
BEFORE = Usage(prompt_tokens=3, completion_tokens=0)
RESULT = GenerationResult(FinishReason.STOP, Usage(3, 4), Timings(3, 4))

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.integers() | st.lists(TEXT, max_size=2), max_size=3).map(
    json.dumps
)
SAID = st.tuples(st.sampled_from([ContentDelta, ReasoningDelta]), st.lists(TEXT, min_size=1, max_size=3))
CALLED = st.tuples(st.just(ToolCallBegin), ARGUMENTS)


@st.composite
def answers(draw: st.DrawFn) -> list[MessageDelta]:
    deltas: list[MessageDelta] = []
    index = 0
    for kind, said in draw(st.lists(SAID | CALLED, max_size=5)):
        if kind is not ToolCallBegin:
            deltas += [kind(text) for text in said]
            continue
        cut = draw(st.integers(0, len(said)))
        deltas.append(ToolCallBegin(index, f"call_{index}", "f"))
        deltas += [ToolCallArguments(index, part) for part in (said[:cut], said[cut:])]
        deltas.append(ToolCallEnd(index))
        index += 1
    return deltas


def events(frames: bytes) -> list[Any]:
    found = [frame.split(b"\ndata: ", 1) for frame in frames.split(b"\n\n") if frame.startswith(b"event: ")]
    return [json.loads(data) for _, data in found]


def streamed(rendering: MessageRendering | ResponseRendering, deltas: list[MessageDelta]) -> list[Any]:
    frames = rendering.begin(BEFORE) + b"".join([rendering.delta(delta) for delta in deltas])
    return events(frames + rendering.end(RESULT) + rendering.conclude())


def answer(deltas: list[MessageDelta]) -> Answer:
    return Answer(MessageBuilder(deltas).message(), deltas=tuple(deltas))


@settings(max_examples=150, deadline=None)
@given(answers())
def test_messages(deltas: list[MessageDelta]) -> None:
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for value in streamed(MessageRendering(id="m", model="m"), deltas):
        if value["type"] != "ping":
            event = ANTHROPIC_EVENT.validate_python(value, strict=True)
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    whole = json.loads(MessageRendering(id="m", model="m").whole(answer(deltas), RESULT))
    assert snapshot.to_dict() == Message.model_validate(whole, strict=True).to_dict()


@settings(max_examples=150, deadline=None)
@given(answers())
def test_responses(deltas: list[MessageDelta]) -> None:
    def rendering() -> ResponseRendering:
        return ResponseRendering(members=MEMBERS, now=lambda: 1.0)

    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    found = streamed(rendering(), deltas)
    for value in found:
        state.handle_event(OPENAI_EVENT.validate_python(value))
    assert [value["sequence_number"] for value in found] == list(range(len(found)))
    whole = json.loads(rendering().whole(answer(deltas), RESULT))
    last = found[-1]["response"]
    assert _without_ids(last) == _without_ids(whole)
    said = "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta))
    assert state._completed_response.output_text == said


MEMBERS: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "top_p": 1.0,
    "tool_choice": "auto",
    "tools": [],
}


def _without_ids(response: dict[str, Any]) -> dict[str, Any]:
    return {**response, "output": [{**item, "id": ""} for item in response["output"]]}
