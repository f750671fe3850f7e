"""llama.cpp behind types: the only place that imports its bindings.

The names below load the library when they are first asked for, so that a process may import the
engine without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inference.engine.llama.constraints import LlamaConstraintCompiler
    from inference.engine.llama.embeddings import LlamaEmbedder
    from inference.engine.llama.media import LlamaProjector
    from inference.engine.llama.model import LlamaModel
    from inference.engine.llama.runner import LlamaRunner
    from inference.engine.llama.tokenizer import LlamaTokenizer

__all__ = [
    "LlamaConstraintCompiler",
    "LlamaEmbedder",
    "LlamaModel",
    "LlamaProjector",
    "LlamaRunner",
    "LlamaTokenizer",
]

_HOMES = {
    "LlamaConstraintCompiler": "constraints",
    "LlamaEmbedder": "embeddings",
    "LlamaModel": "model",
    "LlamaProjector": "media",
    "LlamaRunner": "runner",
    "LlamaTokenizer": "tokenizer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
