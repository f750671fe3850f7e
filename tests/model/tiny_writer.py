"""What tiny models have in common: another model's tokenizer, and weights that cost nothing."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, TokenType

# General fields that are about the source's weights; those about its layers begin with its architecture.
_SKIPPED_FIELDS = ("GGUF.", "general.architecture", "general.quantization_version", "general.file_type")
CONTEXT = 8192


class TinyModelWriter(GGUFWriter):
    """With one random generator for all its weights: the same calls write the same file."""

    def __init__(self, path: Path, architecture: str) -> None:
        super().__init__(path, architecture)
        self.random = np.random.default_rng(7)

    def copy_tokenizer(
        self, source: Path, *, pretokenizer: str | None = None, user_defined: Collection[str] = ()
    ) -> int:
        """Take over what `source` says of its tokenizer and its chats; returns how many tokens there are."""
        num_tokens = 0
        defined: set[int] = set()
        for name, value, kind, element in _general_fields(source):
            if name == "tokenizer.ggml.tokens":
                num_tokens = len(value)
                defined = {value.index(text) for text in user_defined}
            self.add_key_value(
                name,
                pretokenizer
                if name == "tokenizer.ggml.pre" and pretokenizer is not None
                else [int(TokenType.USER_DEFINED) if id in defined else one for id, one in enumerate(value)]
                if name == "tokenizer.ggml.token_type"
                else value,
                kind,
                sub_type=element,
            )
        return num_tokens

    def weights(self, name: str, *shape: int, scale: float = 0.05) -> None:
        self.add_tensor(name, (self.random.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        """A matrix that neither shrinks nor grows what goes through it."""
        self.weights(f"{name}.weight", outputs, inputs, scale=inputs**-0.5)

    def constant(self, name: str, *shape: int, value: float = 1.0) -> None:
        self.add_tensor(name, np.full(shape, value, np.float32))

    def save(self) -> None:
        self.write_header_to_file()
        self.write_kv_data_to_file()
        self.write_tensors_to_file()
        self.close()


@cache
def _general_fields(source: Path) -> list[tuple[str, Any, GGUFValueType, GGUFValueType | None]]:
    """Reading tens of thousands of tokens takes longer than all else here."""
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    skipped = (*_SKIPPED_FIELDS, f"{architecture}.")
    return [
        (
            name,
            field.contents(),
            field.types[0],
            field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None,
        )
        for name, field in reader.fields.items()
        if not name.startswith(skipped)
    ]
