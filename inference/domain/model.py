"""What is known of a loaded model, for the catalogue, templates and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inference.domain.embeddings import EmbeddingDescription
from inference.domain.media import MediaKind
from inference.domain.model_settings import ModelState
from inference.domain.speculation import SpeculationMode


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """One loaded model as the rest of the service sees it.

    `chat_templates` maps a variant's name to its Jinja source; the main one is "default".
    `max_request_tokens` bounds prompt and answer of one request together: the smaller of the
    shared pool of KV cells and the context that the model was trained with. `media_kinds` is what it
    reads besides text. `embedding` None: it embeds nothing; without `can_generate` it does nothing else.
    `speculation_modes` are the ways to draft its answers that it has, beside none.
    """

    id: str
    created: int
    trained_context: int
    num_cells: int
    max_request_tokens: int
    num_vocabulary: int
    chat_templates: Mapping[str, str] = field(default_factory=dict)
    bos_text: str = ""
    eos_text: str = ""
    fingerprint: str = ""
    size_bytes: int = 0
    num_parameters: int = 0
    sampling_defaults: Mapping[str, float] = field(default_factory=dict)
    media_kinds: frozenset[MediaKind] = frozenset()
    can_generate: bool = True
    embedding: EmbeddingDescription | None = None
    speculation_modes: frozenset[SpeculationMode] = frozenset()


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as those see it who may use it, loaded or not. `description` is None while nothing is known of
    its file; `created` is then when the model was set up (seconds since 1970). `default_sampling` is what an
    administrator says where requests for chats say nothing, which goes before what its file recommends.
    `parent` is the id of the model that this is an adapter of."""

    id: str
    state: ModelState
    created: int
    description: ModelDescription | None = None
    default_sampling: Mapping[str, float] = field(default_factory=dict)
    parent: str = ""


_MAIN = re.compile(r"@main(?=:|\Z)")


def canonical_model_id(model_id: str) -> str:
    """The id without its first "@main" that stands before a colon or at the end: clients of hub
    names add that revision, and it means the id itself."""
    return _MAIN.sub("", model_id, count=1)


def id_from_file_name(path: Path) -> str:
    """`SmolLM2-135M-Instruct-Q8_0.gguf` → `SmolLM2-135M-Instruct`: the kind of weights is a detail of
    the installation, clients should not have to follow it."""
    stem = path.name.removesuffix(".gguf")
    return re.sub(r"[-._](I?Q\d\w*|F16|F32|BF16|MXFP4)$", "", stem, flags=re.IGNORECASE) or stem
