"""LoRA adapters: small changes to a model's weights that requests may ask for.

What was computed under one set of adapters is of no use under another, and one batch has one set: it is
part of where a prompt's cells are found again, and of who may share a step.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """One adapter of a model, as an administrator set it up.

    `name` is what requests call it, unique within its model. `source` is a GGUF file's path or hf:….
    `scale` multiplies it where a request says nothing else; `is_default` ones apply where a request names
    none.
    """

    name: str
    source: str
    scale: float = 1.0
    is_default: bool = False


@dataclass(frozen=True, slots=True, order=True)
class AppliedAdapter:
    """An adapter with the scale that a request wants of it. The set of a request is sorted by name, has
    each name once and none with scale 0, so that equal sets are equal."""

    name: str
    scale: float
