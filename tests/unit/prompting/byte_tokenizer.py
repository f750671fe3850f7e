"""A tokenizer whose tokens are bytes and a few control tokens: every effect of it can be counted."""

from __future__ import annotations

import re
from collections.abc import Sequence

CONTROLS = ("<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|im_end|>>x", "§")


class ByteTokenizer:
    """Ids below 256 are bytes, then come the control tokens in their order.

    `has_space_prefix` makes it begin each plain text with a space, also behind a control token, as
    llama.cpp's SentencePiece tokenizer does; `bos` is added where special tokens are asked for.
    """

    def __init__(
        self, controls: Sequence[str] = CONTROLS, *, bos: str | None = None, has_space_prefix: bool = False
    ) -> None:
        self.special_texts = tuple(controls)
        self.pieces = [bytes([byte]) for byte in range(256)] + [b"" for _ in controls]
        self.max_piece_bytes = 1
        self.num_calls = 0
        self._ids = {text: 256 + index for index, text in enumerate(controls)}
        self._bos = bos
        self._has_space_prefix = has_space_prefix
        longest_first = sorted(controls, key=len, reverse=True)
        self._pattern = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    @property
    def num_tokens(self) -> int:
        return len(self.pieces)

    def is_end_of_generation(self, token_id: int) -> bool:
        return token_id == self._ids.get("</s>")

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        self.num_calls += 1
        ids = [self._ids[self._bos]] if add_special and self._bos else []
        for part in self._pattern.split(text) if parse_special else [text]:
            if parse_special and part in self._ids:
                ids.append(self._ids[part])
            elif part:
                ids += (" " + part if self._has_space_prefix else part).encode()
        return ids

    def shown(self, ids: Sequence[int]) -> str:
        """Ids as text, with control tokens in braces."""
        names = {token_id: f"{{{text}}}" for text, token_id in self._ids.items()}
        parts = [names[one].encode() if one in names else self.pieces[one] for one in ids]
        return b"".join(parts).decode()
