"""What is sent is what Anthropic's own client reads, and a stream adds up to the whole message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from inference.anthropic.rendering import MessageRendering, count_body
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

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
BEFORE = Usage(prompt_tokens=12, completion_tokens=0, cached_tokens=4)
AFTER = Usage(prompt_tokens=12, completion_tokens=7, cached_tokens=4)

ANSWERS: dict[str, list[MessageDelta]] = {
    "text": [ContentDelta("Hé"), ContentDelta(' "\n😸'), ContentDelta("\u2028")],
    "nothing": [],
    "thinking": [ReasoningDelta("Well, "), ReasoningDelta("so."), ContentDelta("Yes.")],
    "calls": [
        ReasoningDelta("I must look."),
        ContentDelta("Looking."),
        ToolCallBegin(0, "call_1", "look"),
        ToolCallArguments(0, '{"at":'),
        ToolCallArguments(0, ' "é"}'),
        ToolCallEnd(0),
        ToolCallBegin(1, "call_2", "wait"),
        ToolCallArguments(1, "{}"),
        ToolCallEnd(1),
    ],
    "text between and behind calls": [
        ContentDelta("One."),
        ToolCallBegin(0, "call_1", "look"),
        ToolCallEnd(0),
        ContentDelta("Two."),
        ToolCallBegin(1, "call_2", "look"),
        ToolCallArguments(1, "{}"),
        ToolCallEnd(1),
        ContentDelta("Three."),
    ],
    "a call that breaks off": [
        ToolCallBegin(0, "call_1", "look"),
        ToolCallArguments(0, '{"at": "Rome", "for'),
    ],
}


def rendering() -> MessageRendering:
    return MessageRendering(id="msg_1", model="m")


def result(reason: FinishReason = FinishReason.STOP, stop: str | None = None) -> GenerationResult:
    return GenerationResult(reason, AFTER, Timings(num_prompt_tokens=12, num_predicted_tokens=7), stop)


def events(frames: bytes) -> list[Any]:
    """Each event, strictly as the client's types have it; its name is its type."""
    found = []
    for text in frames.decode().removesuffix("\n\n").split("\n\n"):
        name, data = text.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        if value["type"] != "ping":
            found.append(EVENT.validate_python(value, strict=True))
    return found


def stream(deltas: list[MessageDelta], ended: GenerationResult) -> list[Any]:
    one = rendering()
    frames = one.begin(BEFORE) + b"".join([one.delta(delta) for delta in deltas])
    return events(frames + one.end(ended) + one.conclude())


def whole(deltas: list[MessageDelta], ended: GenerationResult) -> Message:
    body = rendering().whole(Answer(MessageBuilder(deltas).message(), deltas=tuple(deltas)), ended)
    return Message.model_validate(json.loads(body), strict=True)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_stream_adds_up_to_the_whole_message(name: str) -> None:
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in stream(ANSWERS[name], result()):
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    answer = whole(ANSWERS[name], result())
    assert snapshot.to_dict() == answer.to_dict()
    assert answer.usage.input_tokens == 8 and answer.usage.cache_read_input_tokens == 4
    assert answer.usage.output_tokens == 7


@pytest.mark.parametrize("name", ANSWERS)
def test_blocks_open_and_close_in_order(name: str) -> None:
    kinds = [event.type for event in stream(ANSWERS[name], result())]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    open_index: int | None = None
    next_index = 0
    for event in stream(ANSWERS[name], result())[1:-2]:
        if event.type == "content_block_start":
            assert open_index is None and event.index == next_index
            open_index, next_index = event.index, next_index + 1
        elif event.type == "content_block_delta":
            assert event.index == open_index
        else:
            assert event.type == "content_block_stop" and event.index == open_index
            open_index = None
    assert open_index is None


@pytest.mark.parametrize(
    ("reason", "stop", "told"),
    [
        (FinishReason.STOP, None, ("end_turn", None)),
        (FinishReason.STOP, "END", ("stop_sequence", "END")),
        (FinishReason.LENGTH, None, ("max_tokens", None)),
        (FinishReason.TOOL_CALLS, None, ("tool_use", None)),
    ],
)
def test_why_it_ended(reason: FinishReason, stop: str | None, told: tuple[str, str | None]) -> None:
    ended = result(reason, stop)
    answer, last = whole([], ended), stream([], ended)[-2]
    assert (answer.stop_reason, answer.stop_sequence) == told
    assert (last.delta.stop_reason, last.delta.stop_sequence) == told


def test_text_frames_are_deltas_of_text() -> None:
    one, other = rendering(), rendering()
    for text in ("a", "", 'b"\n'):
        assert one.text_frame(text) == other.delta(ContentDelta(text))


def test_the_answer_to_a_count() -> None:
    assert json.loads(count_body(5)) == {"input_tokens": 5}
