"""What prompting and parsing need to know of a vocabulary, without llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class InfillTokens:
    """The control tokens of a model that was taught to fill in what is missing between two texts. `middle` is
    None where the answer comes right behind the first text. `begin` is what every prompt begins with."""

    prefix: int
    suffix: int
    middle: int | None = None
    begin: tuple[int, ...] = ()


class Tokenizer(Protocol):
    """Text to token ids and back. Thread-safe; made once for each model.

    `pieces[i]` is what token i adds to the text, as bytes: it may end inside a UTF-8 character,
    and is empty for control tokens. `special_texts` are the texts that `parse_special` turns into
    one control token (`<|im_end|>` and the like); `control_texts` are the names of the tokens that
    add nothing to the text, by id.
    """

    def __hash__(self) -> int:
        """It is itself and no other: what is worked out for a vocabulary is kept by it."""
        ...

    @property
    def pieces(self) -> Sequence[bytes]: ...

    @property
    def special_texts(self) -> Sequence[str]: ...

    @property
    def control_texts(self) -> Mapping[int, str]: ...

    @property
    def max_piece_bytes(self) -> int:
        """Length of the longest piece: no text of n bytes has fewer than n / this tokens."""
        ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def infill(self) -> InfillTokens | None:
        """None where the model knows nothing of filling in."""
        ...

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """`add_special` adds BOS/EOS as the model wants; `parse_special` reads control tokens."""
        ...

    def is_end_of_generation(self, token_id: int) -> bool: ...
