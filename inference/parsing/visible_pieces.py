"""The text of tokens as a parser must see it: some control tokens have one, too."""

from __future__ import annotations

from collections.abc import Sequence

from inference.domain.tokenizer import Tokenizer
from inference.parsing.vocabulary_tables import kept_with_tokenizer


@kept_with_tokenizer
def visible_pieces(tokenizer: Tokenizer, preserved_texts: tuple[str, ...]) -> Sequence[bytes]:
    """The tokenizer's table of bytes by token id, in which those of its control tokens that are named
    have their name. Made once for each model and format, since a vocabulary has 100,000 tokens."""
    shown = {
        token_id: text for token_id, text in tokenizer.control_texts.items() if text in set(preserved_texts)
    }
    if not shown:
        return tokenizer.pieces
    pieces = list(tokenizer.pieces)
    for token_id, text in shown.items():
        pieces[token_id] = text.encode()
    return pieces
