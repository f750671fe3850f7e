"""What is to happen to a model next: decided here from what is known, done in hosted_model.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from inference.domain.model_settings import LoadPolicy, ModelSettings, ModelState


class Standing(Enum):
    """Whether a model is to be in memory."""

    LOADED = "loaded"
    ON_DEMAND = "on demand"
    UNLOADED = "unloaded"


class Step(Enum):
    """The next thing to do; none where all is as it should be, or has to wait."""

    NONE = "none"
    LOAD = "load"
    UNLOAD = "unload"
    FORGET = "forget"
    """Its failure does not matter any more."""


def standing_of(settings: ModelSettings) -> Standing:
    """An operator's word goes before the policy."""
    if settings.wants_loaded is not None:
        return Standing.LOADED if settings.wants_loaded else Standing.UNLOADED
    match settings.load_policy:
        case LoadPolicy.ALWAYS:
            return Standing.LOADED
        case LoadPolicy.ON_DEMAND:
            return Standing.ON_DEMAND
        case LoadPolicy.BY_HAND:
            return Standing.UNLOADED


def load_key(settings: ModelSettings) -> tuple[object, ...]:
    """What a loaded model was made of: where this changes, it has to be loaded again. All else is taken
    over while it serves."""
    return (
        settings.source,
        settings.projector_source,
        tuple(sorted((name, repr(value)) for name, value in settings.engine.items())),
        tuple(sorted((name, repr(value)) for name, value in settings.admission.items())),
        settings.has_embeddings,
        settings.chat_defaults.get("chat_template"),
        tuple([(adapter.name, adapter.source) for adapter in settings.adapters]),
        settings.speculation.draft_source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that the next step follows from.

    `is_outdated`: it was loaded (or failed to be) by settings that have changed since. `is_demanded`:
    requests wait for it. `is_unused`: nobody has asked for as long as it may stay then, or its memory is
    needed. `may_retry`: the pause after its last failure is over.
    """

    state: ModelState
    standing: Standing
    is_outdated: bool = False
    is_demanded: bool = False
    is_unused: bool = False
    may_retry: bool = True


def next_step(now: Situation) -> Step:
    """What runs already (LOADING, DRAINING) is never interfered with: it ends, and then this is asked
    again."""
    is_wanted = now.standing is Standing.LOADED or (now.standing is Standing.ON_DEMAND and now.is_demanded)
    match now.state:
        case ModelState.UNLOADED:
            return Step.LOAD if is_wanted else Step.NONE
        case ModelState.FAILED:
            if now.standing is Standing.UNLOADED:
                return Step.FORGET
            return Step.LOAD if is_wanted and (now.may_retry or now.is_outdated) else Step.NONE
        case ModelState.READY:
            is_over = now.standing is Standing.ON_DEMAND and now.is_unused
            is_over = is_over or now.is_outdated or now.standing is Standing.UNLOADED
            return Step.UNLOAD if is_over else Step.NONE
        case _:
            return Step.NONE
