"""Texts, and pairs of a query and a document, to the token ids that are embedded or ranked.

As in all prompts, nothing that a caller wrote becomes a control token: where a ranking model's template has
its own (`<|im_start|>`), callers' texts in it are cut apart where they could (control_text.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from inference.domain.embeddings import EmbeddingDescription
from inference.domain.errors import ContextLengthExceeded, InvalidRequest
from inference.domain.model import ModelDescription
from inference.domain.tokenizer import Tokenizer
from inference.prompting.control_text import ControlTexts, PromptMarks
from inference.prompting.text_size import text_bytes

_PLACES = re.compile(r"(\{query\}|\{document\})")
_TEMPLATE = "rerank"


class EmbeddingInputs:
    """For one model; thread-safe. Errors name the field that the caller gives as `param`."""

    def __init__(self, tokenizer: Tokenizer, description: ModelDescription) -> None:
        if description.embedding is None:
            raise ValueError(f"{description.id} embeds nothing")
        self._tokenizer = tokenizer
        self._embedding: EmbeddingDescription = description.embedding
        # The template that llama.cpp knows by this name is text with two places in it, and no Jinja.
        source = description.chat_templates.get(_TEMPLATE)
        self._template = None if source is None else _PLACES.split(source)
        self._controls = ControlTexts(tokenizer.special_texts, self._template or ())

    def text(self, text: str, *, param: str) -> tuple[int, ...]:
        """With what the vocabulary wants before and behind a text. Raises InvalidRequest and
        ContextLengthExceeded."""
        self._check_size(text_bytes(text), param)
        ids = self._tokenizer.tokenize(text, add_special=True, parse_special=False)
        return self._checked(ids, param)

    def token_ids(self, token_ids: Sequence[int], *, param: str) -> tuple[int, ...]:
        """They are taken as they are. Raises InvalidRequest and ContextLengthExceeded."""
        if max(token_ids) >= self._tokenizer.num_tokens:
            raise InvalidRequest(
                f"Invalid '{param}': the token ids of this model are 0 to {self._tokenizer.num_tokens - 1}.",
                param=param,
            )
        return self._checked(token_ids, param)

    def query(self, query: str) -> RankedQuery:
        """Raises InvalidRequest and ContextLengthExceeded."""
        self._check_size(text_bytes(query), "query")
        ids = [] if self._template else self._plain(query)
        return RankedQuery(self, query, ids)

    def pair(self, query: str, query_ids: Sequence[int], document: str, *, param: str) -> tuple[int, ...]:
        self._check_size(text_bytes(query) + text_bytes(document), param)
        if self._template is not None:
            return self._checked(self._templated(query, document), param)
        marks = self._embedding.pair_marks
        ids = [*marks.begin, *query_ids, *marks.middle, *self._plain(document), *marks.end]
        return self._checked(ids, param)

    def _templated(self, query: str, document: str) -> list[int]:
        assert self._template is not None
        marks = PromptMarks(self._controls)
        texts = {"{query}": marks.guard(query), "{document}": marks.guard(document)}
        segments = marks.segments("".join([texts.get(piece, piece) for piece in self._template]))
        return [
            token_id
            for segment in segments
            for token_id in self._tokenizer.tokenize(
                segment.text, add_special=False, parse_special=not segment.is_plain
            )
        ]

    def _plain(self, text: str) -> list[int]:
        return self._tokenizer.tokenize(text, add_special=False, parse_special=False)

    def _check_size(self, num_bytes: int, param: str) -> None:
        """Spares the tokenizer a text of megabytes: no token stands for more bytes than the longest."""
        num_at_least = -(-num_bytes // max(1, self._tokenizer.max_piece_bytes))
        if num_at_least > self._embedding.max_tokens:
            raise self._too_long(param, f"{num_bytes} bytes, which are at least {num_at_least} tokens")

    def _checked(self, ids: Sequence[int], param: str) -> tuple[int, ...]:
        if not ids:
            raise InvalidRequest(f"Invalid '{param}': it makes no tokens.", param=param)
        if len(ids) > self._embedding.max_tokens:
            raise self._too_long(param, f"{len(ids)} tokens")
        return tuple(ids)

    def _too_long(self, param: str, length: str) -> ContextLengthExceeded:
        return ContextLengthExceeded(
            f"This model's maximum length of a text is {self._embedding.max_tokens} tokens. However, "
            f"'{param}' has {length}. Please shorten it.",
            param=param,
        )


class RankedQuery:
    """A query, tokenized once for all of its documents."""

    def __init__(self, inputs: EmbeddingInputs, query: str, ids: Sequence[int]) -> None:
        self._inputs = inputs
        self._query = query
        self._ids = ids

    def with_document(self, document: str, *, param: str) -> tuple[int, ...]:
        """The pair. Raises InvalidRequest and ContextLengthExceeded with this param."""
        return self._inputs.pair(self._query, self._ids, document, param=param)
