from __future__ import annotations

from uuid import UUID

import pytest

from inference.openai.capsule_headers import capsule_headers, nonce_headers

NONCE = b"0c3a5c34-9b0c-4b5e-8a3f-5d9f0a1b2c3d"
SENT = [(b"x-capsule-client-nonce", NONCE)]


def is_minted(headers: object) -> bool:
    found = dict(headers)  # type: ignore[call-overload]
    nonce = found[b"x-capsule-client-nonce"].decode()
    return UUID(nonce).version == 4 and found[b"x-capsule-nonce-origin"] == b"frontend"


def test_nobody_who_says_nothing_is_told_anything() -> None:
    assert nonce_headers([(b"x-capsule-nonce-origin", b"client"), (b"accept", b"*/*")]) == ()
    assert capsule_headers([], None) == ()


def test_exactly_one_valid_nonce_is_kept() -> None:
    assert nonce_headers(SENT) == tuple(SENT)
    assert nonce_headers([(b"x-capsule-client-nonce", b" " + NONCE.upper() + b" ")]) == tuple(SENT)


@pytest.mark.parametrize(
    "sent",
    [
        SENT * 2,
        [(b"x-capsule-client-nonce", b"")],
        [(b"x-capsule-client-nonce", b"nonsense")],
        [(b"x-capsule-client-nonce", b"0c3a5c34-9b0c-1b5e-8a3f-5d9f0a1b2c3d")],
        [(b"x-capsule-client-nonce", b"0c3a5c34-9b0c-4b5e-0a3f-5d9f0a1b2c3d")],
        [(b"x-capsule-client-nonce", NONCE + b"\r\nx: y")],
        [(b"x-capsule-client-nonce", b"\xff" * 36)],
    ],
)
def test_any_other_is_replaced_by_a_new_one(sent: list[tuple[bytes, bytes]]) -> None:
    first, second = nonce_headers(sent), nonce_headers(sent)
    assert is_minted(first)
    assert first != second


def test_a_marker_comes_with_a_nonce() -> None:
    assert capsule_headers(SENT, ("c 1", None)) == ((b"x-capsule-id", b"c 1"), *SENT)
    assert is_minted(capsule_headers([], ("c1", None)))
    named = capsule_headers(SENT, ("c1", "n1"))
    assert named == ((b"x-capsule-id", b"c1"), (b"x-capsule-client-nonce", b"n1"))


@pytest.mark.parametrize("capsule_id", ["", " a", "a\r\nb: c", "a\0", "ä", "x" * 2000])
def test_a_marker_that_is_no_header_is_none(capsule_id: str) -> None:
    assert capsule_headers([], (capsule_id, None)) == ()
    assert capsule_headers(SENT, (capsule_id, "n")) == tuple(SENT)
