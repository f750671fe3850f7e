"""What processes ask each other about what runs, and how far a request is."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest

from inference.domain.events import Usage
from inference.domain.live_requests import LivePhase, LiveRequestStatus
from inference.ledger.live_questions import (
    MAX_PAYLOAD_BYTES,
    Cancellation,
    LiveQuestion,
    answer_payloads,
    decode_answer,
    decode_question,
    encode,
    reply_channel,
)
from tests.ledger_parts import summary


def test_a_question_comes_through() -> None:
    asked = LiveQuestion(reply_channel(uuid4()), Cancellation(uuid4(), 7, "o'brien \0 é"))
    assert decode_question(encode(asked)) == asked
    assert "\0" not in encode(asked), "which Postgres would not take"


@pytest.mark.parametrize("payload", ["", "{", "[]", '{"cancel": 1}', '{"reply_to": 3}'])
def test_what_is_none_is_told_apart(payload: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_question(payload)


@pytest.mark.parametrize("num_requests", [0, 1, 2, 50])
def test_an_answer_comes_in_parts_that_fit_and_loses_nothing(num_requests: int) -> None:
    long = {
        "username": "é" * 150,
        "key_name": "\0" * 100,
        "team_name": "\U0001f600" * 150,
        "model": "m" * 200,
    }
    told = [LiveRequestStatus.of(summary(f"r{number}", **long)) for number in range(num_requests)]
    payloads = list(answer_payloads("server", told))
    assert all(len(payload.encode()) <= MAX_PAYLOAD_BYTES for payload in payloads)
    answers = [decode_answer(payload) for payload in payloads]
    assert [one for answer in answers for one in answer.requests] == told
    assert [answer.is_last for answer in answers] == [False] * (len(answers) - 1) + [True]
    assert {answer.server for answer in answers} == {"server"}


@pytest.mark.parametrize(
    ("reached", "phase", "phase_s"),
    [
        ({}, LivePhase.PREPARING, 10.0),
        ({"submitted_s": 1.0}, LivePhase.WAITING, 9.0),
        ({"submitted_s": 1.0, "started_s": 3.0}, LivePhase.PREFILL, 7.0),
        ({"submitted_s": 1.0, "started_s": 3.0, "first_token_s": 6.0}, LivePhase.DECODING, 4.0),
    ],
)
def test_phases(reached: dict[str, float], phase: LivePhase, phase_s: float) -> None:
    usage = Usage(10, 3) if "started_s" in reached else None
    status = LiveRequestStatus.of(summary(usage=usage, total_s=10.0, **reached))
    assert (status.phase, status.phase_s, status.total_s) == (phase, phase_s, 10.0)
    assert status.num_input_tokens == (10 if usage else 0)
