from __future__ import annotations

import uuid

import pytest

from inference.openai.request_ids import request_id

KNOWN = "0f8fad5b-d9cb-469f-a165-70867728950e"


def test_a_callers_uuid_is_kept_in_one_spelling() -> None:
    assert request_id(KNOWN.encode()) == KNOWN
    assert request_id(KNOWN.upper().encode()) == KNOWN


@pytest.mark.parametrize(
    "incoming",
    [
        None,
        b"",
        b"abc",
        KNOWN.replace("-", "").encode(),
        f"{{{KNOWN}}}".encode(),
        f"urn:uuid:{KNOWN}".encode(),
        f" {KNOWN}".encode(),
        KNOWN.encode()[:-1] + b"\n",
        b"\xff" * 36,
        b"x" * 100_000,
        KNOWN[:-1].encode() + "é".encode("latin-1"),
    ],
)
def test_anything_else_is_replaced_by_a_new_one(incoming: bytes | None) -> None:
    made = request_id(incoming)
    assert str(uuid.UUID(made)) == made
    assert made != KNOWN
    assert request_id(incoming) != made
