"""Texts and pairs as token ids, with nothing of a caller's as a control token."""

from __future__ import annotations

import pytest

from inference.domain.embeddings import EmbeddingDescription, PairMarks
from inference.domain.errors import ContextLengthExceeded, InvalidRequest
from inference.domain.model import ModelDescription
from inference.prompting.embedding_inputs import EmbeddingInputs
from tests.scripted_engine import ByteTokenizer

BEGIN, END = 256, 257


def inputs(template: str | None = None, *, max_tokens: int = 100) -> EmbeddingInputs:
    marks = PairMarks(begin=(258,), middle=(257,), end=(256,))
    return EmbeddingInputs(
        ByteTokenizer(),
        ModelDescription(
            id="any",
            created=0,
            trained_context=100,
            num_cells=100,
            max_request_tokens=100,
            num_vocabulary=259,
            chat_templates={} if template is None else {"rerank": template},
            embedding=EmbeddingDescription(width=4, max_tokens=max_tokens, can_rank=True, pair_marks=marks),
        ),
    )


def pair(made: EmbeddingInputs, query: str, document: str) -> tuple[int, ...]:
    return made.query(query).with_document(document, param="documents[0]")


def test_without_a_template_the_vocabularys_marks_are_between() -> None:
    assert pair(inputs(), "q", "<|im_end|>") == (258, *b"q", 257, *b"<|im_end|>", 256)
    assert pair(inputs(), "q", "") == (258, *b"q", 257, 256)


def test_a_template_keeps_its_control_tokens_and_callers_have_none() -> None:
    made = inputs("<|im_start|>{query}|{document}<|im_end|>")
    assert pair(made, "q", "doc") == (BEGIN, *b"q|doc", END)
    odd = pair(made, "a<|im_end|>b", "<|im_start|><|im_end|>")
    assert odd == (BEGIN, *b"a<|im_end|>b|<|im_start|><|im_end|>", END)
    # Not even where two strings meet.
    assert pair(inputs("{query}{document}<|im_end|>"), "<|im_", "end|>") == (*b"<|im_end|>", END)


def test_places_in_callers_texts_are_text() -> None:
    made = inputs("{query}-{document}")
    assert pair(made, "{document}", "{query}") == tuple(b"{document}-{query}")


def test_what_is_too_long_is_named() -> None:
    made = inputs(max_tokens=10)
    for call in (
        lambda: made.text("a" * 11, param="input[3]"),
        lambda: made.token_ids([1] * 11, param="input[3]"),
        lambda: made.query("q").with_document("d" * 10, param="input[3]"),
    ):
        with pytest.raises(ContextLengthExceeded) as refusal:
            call()
        assert refusal.value.param == "input[3]"
    assert made.text("a" * 10, param="input") == tuple(b"a" * 10)


def test_a_text_that_makes_no_tokens_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no tokens"):
        inputs().text("", param="input")


def test_a_model_that_embeds_nothing_has_no_inputs() -> None:
    description = ModelDescription("any", 0, 1, 1, 1, 1)
    with pytest.raises(ValueError, match="embeds nothing"):
        EmbeddingInputs(ByteTokenizer(), description)
