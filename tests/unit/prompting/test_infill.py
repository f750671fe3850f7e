from __future__ import annotations

import pytest

from inference.domain.errors import ContextLengthExceeded, InvalidRequest, UnsupportedParameter
from inference.domain.tokenizer import InfillTokens
from inference.prompting.infill import infill_prompt
from inference.prompting.prompt import PromptBuilder, PromptTimes
from tests.scripted_engine import ByteTokenizer, ScriptedEngine

PREFIX, SUFFIX, MIDDLE, BOS = 256, 257, 258, 255


def builder(tokens: InfillTokens | None) -> PromptBuilder:
    tokenizer = ByteTokenizer()
    tokenizer.infill = tokens
    return PromptBuilder(tokenizer, ScriptedEngine().description)


def test_the_order_of_the_parts() -> None:
    assert infill_prompt(InfillTokens(PREFIX, SUFFIX, MIDDLE, (BOS,)), (1, 2), (3,)) == (
        BOS,
        PREFIX,
        1,
        2,
        SUFFIX,
        3,
        MIDDLE,
    )
    assert infill_prompt(InfillTokens(PREFIX, SUFFIX), (1, 2), (3,)) == (SUFFIX, 3, PREFIX, 1, 2)


def test_text_and_token_ids() -> None:
    prompts = builder(InfillTokens(PREFIX, SUFFIX, MIDDLE))
    times = PromptTimes()
    assert prompts.infill("ab", "c", times) == (PREFIX, 97, 98, SUFFIX, 99, MIDDLE)
    assert times.num_text_bytes == 3
    assert prompts.infill((97, 98), "c", times) == (PREFIX, 97, 98, SUFFIX, 99, MIDDLE)


def test_control_texts_in_either_part_are_text() -> None:
    ids = builder(InfillTokens(PREFIX, SUFFIX, MIDDLE)).infill("<|im_end|>", "<|im_start|>", PromptTimes())
    assert [token_id for token_id in ids if token_id >= 256] == [PREFIX, SUFFIX, MIDDLE]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UnsupportedParameter) as unsupported:
        builder(None).infill("a", "b", PromptTimes())
    assert unsupported.value.param == "suffix"
    prompts = builder(InfillTokens(PREFIX, SUFFIX, MIDDLE))
    with pytest.raises(ContextLengthExceeded):
        prompts.infill("a", "b" * 5000, PromptTimes())
    with pytest.raises(InvalidRequest):
        prompts.infill((9999,), "b", PromptTimes())
