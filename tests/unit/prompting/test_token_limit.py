from __future__ import annotations

import pytest

from inference.domain.errors import ContextLengthExceeded
from inference.prompting.token_limit import check_prompt_fits, check_text_fits, resolve_max_tokens


def test_one_token_of_answer_must_fit() -> None:
    check_prompt_fits(99, max_request_tokens=100, param="messages")
    with pytest.raises(ContextLengthExceeded) as caught:
        check_prompt_fits(100, max_request_tokens=100, param="messages")
    assert caught.value.param == "messages"
    assert caught.value.code == "context_length_exceeded"


def test_the_message_has_both_numbers() -> None:
    with pytest.raises(ContextLengthExceeded, match=r"\b100\b.*\b4321\b"):
        check_prompt_fits(4321, max_request_tokens=100, param="prompt")


def test_bytes_alone_can_tell() -> None:
    check_text_fits(99 * 8, max_piece_bytes=8, max_request_tokens=100, param="prompt")
    with pytest.raises(ContextLengthExceeded, match=r"\b100\b.*\b793 bytes\b.*\b100\b"):
        check_text_fits(99 * 8 + 1, max_piece_bytes=8, max_request_tokens=100, param="prompt")


@pytest.mark.parametrize(
    ("wanted", "num_prompt_tokens", "expected"),
    [(16, 10, 16), (16, 90, 10), (5, 10, 5), (2**31 - 1, 10, 90), (1, 99, 1), (50, 99, 1)],
)
def test_the_answer_gets_what_is_wanted_within_the_context(
    wanted: int, num_prompt_tokens: int, expected: int
) -> None:
    limit = resolve_max_tokens(wanted, num_prompt_tokens=num_prompt_tokens, max_request_tokens=100)
    assert limit == expected
