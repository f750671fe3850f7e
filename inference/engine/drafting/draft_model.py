"""What speculation needs of a smaller model that drafts: the seam to llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from typing import Protocol

from inference.engine.config import EngineConfig
from inference.engine.sequence import Sequence


def draft_config(config: EngineConfig) -> EngineConfig:
    """A context as large as the model's, for running sequences alone."""
    return replace(config, has_prefix_cache=False)


@dataclass(frozen=True, slots=True, eq=False)
class DraftOrder:
    """Guess the next `num_tokens` tokens of a decoding sequence."""

    sequence: Sequence
    num_tokens: int


class DraftModel(Protocol):
    """Has the model's own vocabulary. Used by the engine thread; knows sequences by their lanes."""

    @property
    def token_s(self) -> float:
        """Seconds that a drafted token takes, as measured lately; 0 before anything was."""
        ...

    @property
    def prompt_token_s(self) -> float:
        """Seconds for each of many tokens that it reads at once; 0 before it has read any."""
        ...

    def num_behind(self, sequence: Sequence) -> int:
        """Tokens of the sequence that it has not read yet, the last one excepted."""
        ...

    def draft(self, orders: SequenceOf[DraftOrder]) -> list[tuple[int, ...]]:
        """For each of them what it would say, greedily, at most so many tokens: none where it has to read
        more of the sequence first, and has begun with that. May raise; then it knows nothing any more."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """It has ended."""
        ...
