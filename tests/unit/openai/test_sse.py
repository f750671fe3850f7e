from __future__ import annotations

import json

from inference.domain.errors import GenerationFailed
from inference.openai import sse
from tests.unit.openai.test_rendering import validator


def test_a_frame_is_one_line_and_a_blank_one() -> None:
    assert sse.frame(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert sse.DONE == b"data: [DONE]\n\n"
    assert sse.KEEP_ALIVE.startswith(b":")
    assert sse.KEEP_ALIVE.endswith(b"\n\n")


def test_an_error_in_a_stream_is_the_error_object_in_a_frame() -> None:
    frame = sse.error_frame(GenerationFailed("it\nfailed"))
    assert frame.count(b"\n") == 2
    value = json.loads(frame.removeprefix(b"data: "))
    validator("ErrorResponse").validate(value)
    assert value["error"]["code"] == "generation_failed"
    assert value["error"]["message"] == "it\nfailed"
