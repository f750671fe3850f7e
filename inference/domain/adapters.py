"""LoRA adapters: small changes to a model's weights that requests may ask for.

What was computed under one set of adapters is of no use under another, and one batch has one set: it is
part of where a prompt's cells are found again, and of who may share a step.
"""

from __future__ import annotations

from collections.abc import Iterable
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


# More than one or two are rare; each is computed beside every layer.
MAX_ADAPTERS_A_REQUEST = 8
# Scales of a few are in use; what is far beyond makes numbers that are none.
MAX_REQUEST_SCALE = 100.0


@dataclass(frozen=True, slots=True)
class AdapterChoice:
    """An adapter as a request asks for it: by its name, or by its place in the model's list. `scale` None is
    the one that the administrator set."""

    name: str | None = None
    index: int | None = None
    scale: float | None = None


AdapterSet = tuple[AppliedAdapter, ...]


def adapter_set(applied: Iterable[AppliedAdapter]) -> AdapterSet:
    """The set of a request, in the one form that it has. Names must differ."""
    return tuple(sorted([one for one in applied if one.scale]))


def adapter_namespace(adapters: AdapterSet) -> str:
    """What the namespace of requests with these adapters ends with; empty where there are none. Different
    sets never have the same: scales are written to their last bit, and names have their length beside them.
    """
    if not adapters:
        return ""
    named = ", ".join([f"{len(one.name)} {one.name} × {one.scale!r}" for one in adapters])
    return f", {len(adapters)} adapters: {named}"
