"""How a model makes one vector of a text's tokens, and the sizes that follow: known before a context is made.

Sources: llama-arch.cpp (`<architecture>.pooling_type`, `<architecture>.attention.causal`), llama.h
(`enum llama_pooling_type`), llama-model.cpp, `create_memory` (which architectures keep nothing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from inference.domain.embeddings import EmbeddingDescription, PairMarks
from inference.engine.config import EngineConfig

# Of one text, where nobody set another limit. Beside a context that generates, a second one should be
# small; a model of its own takes what OpenAI's models take. Where every token sees all of its text, what is
# reserved for a micro batch grows with the square of this.
MAX_TOKENS_BESIDE_GENERATION = 2048
MAX_TOKENS_OF_ITS_OWN = 8192
MAX_TOKENS_AT_ONCE = 2048

# Their tokens see all of their text and nothing is kept of it, whether their file says so or not.
ENCODERS = frozenset(
    [
        "bert",
        "eurobert",
        "gemma-embedding",
        "jina-bert-v2",
        "jina-bert-v3",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "t5encoder",
    ]
)


class Pooling(IntEnum):
    """llama.h, enum llama_pooling_type."""

    NONE = 0
    MEAN = 1
    CLS = 2
    LAST = 3
    RANK = 4


@dataclass(frozen=True, slots=True)
class EmbeddingSizes:
    """Of a context that embeds: `num_cells` for the text that is computed in parts and a batch beside it;
    `max_batch_tokens` are computed at once. `can_part`: longer texts than that can be computed."""

    description: EmbeddingDescription
    max_batch_tokens: int
    num_cells: int
    can_part: bool


@dataclass(frozen=True, slots=True)
class PoolingTraits:
    """`stated` is what the file says, None where it says nothing. Without `is_causal` every token sees all
    of its text, so that nothing can be generated one by one."""

    stated: Pooling | None
    is_causal: bool

    @property
    def effective(self) -> Pooling:
        """Models that were made to generate say nothing, and llama-server then serves no embeddings until
        its operator has named a pooling. The mean over all tokens needs no training for it."""
        return self.stated or Pooling.MEAN

    @property
    def can_rank(self) -> bool:
        return self.stated is Pooling.RANK

    @property
    def can_generate(self) -> bool:
        """A file that names its pooling was trained for that, whatever else llama.cpp could do with it."""
        return self.is_causal and not self.stated

    def sizes(
        self, config: EngineConfig, *, width: int, trained_context: int, pair_marks: PairMarks
    ) -> EmbeddingSizes:
        """Of the context for embeddings; `width` is the model's output's."""
        trained = trained_context or config.max_tokens_at_once
        if self.is_causal:
            usual = MAX_TOKENS_BESIDE_GENERATION if self.can_generate else MAX_TOKENS_OF_ITS_OWN
            max_tokens = min(config.max_embedding_tokens or usual, trained, config.num_cells)
            batch_tokens = config.max_tokens_at_once
            num_cells = max_tokens + batch_tokens
        else:
            max_tokens = min(config.max_embedding_tokens or MAX_TOKENS_AT_ONCE, trained)
            batch_tokens = num_cells = max(max_tokens, config.max_tokens_at_once)
        description = EmbeddingDescription(
            width=width, max_tokens=max_tokens, can_rank=self.can_rank, pair_marks=pair_marks
        )
        return EmbeddingSizes(description, batch_tokens, num_cells, can_part=self.is_causal)


def read_pooling(metadata: Mapping[str, str]) -> PoolingTraits:
    """From a file's own key-value pairs; a pooling that llama.cpp does not know is none."""
    architecture = metadata.get("general.architecture", "")
    text = metadata.get(f"{architecture}.pooling_type", "")
    known = {str(int(one)): one for one in Pooling}
    is_causal = (
        architecture not in ENCODERS and metadata.get(f"{architecture}.attention.causal", "true") != "false"
    )
    return PoolingTraits(known.get(text), is_causal)
