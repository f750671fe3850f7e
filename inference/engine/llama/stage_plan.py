"""Which stages a request really needs, and whether the fast ways of drawing can do them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from inference.domain.requests import SamplingParams
from inference.domain.sampling import DEFAULT_STAGES, SamplerStage

_PLACES = {stage: place for place, stage in enumerate(DEFAULT_STAGES)}
_FAST = frozenset(
    {
        SamplerStage.PENALTIES,
        SamplerStage.TOP_K,
        SamplerStage.TOP_P,
        SamplerStage.MIN_P,
        SamplerStage.TEMPERATURE,
    }
)
# Beside mirostat, which decides itself what may be drawn.
_WITH_MIROSTAT = (SamplerStage.PENALTIES, SamplerStage.DRY, SamplerStage.TEMPERATURE)


def plan_stages(params: SamplingParams) -> tuple[SamplingParams, tuple[SamplerStage, ...] | None]:
    """The parameters with all that is not in `params.stages` turned off, and the stages that do
    something, in order; None where the fast ways draw the same."""
    if params.mirostat_mode and params.temperature > 0:
        return params, tuple(stage for stage in _WITH_MIROSTAT if _is_active(params, stage))
    params = _without_missing(replace(params, mirostat_mode=0) if params.mirostat_mode else params)
    active = tuple(stage for stage in params.stages if _is_active(params, stage))
    places = [_PLACES[stage] for stage in active]
    is_ordered = all(one < other for one, other in pairwise(places))
    if is_ordered and _FAST.issuperset(active) and params.dynatemp_range <= 0:
        return params, None
    return params, active


def _without_missing(params: SamplingParams) -> SamplingParams:
    if params.stages is DEFAULT_STAGES:
        return params
    missing = set(DEFAULT_STAGES).difference(params.stages)
    for stage in missing:
        params = replace(params, **_NEUTRAL[stage])  # type: ignore[arg-type]
    return params


_NEUTRAL: dict[SamplerStage, dict[str, float]] = {
    SamplerStage.PENALTIES: {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
    SamplerStage.DRY: {"dry_multiplier": 0.0},
    SamplerStage.TOP_N_SIGMA: {"top_n_sigma": -1.0},
    SamplerStage.TOP_K: {"top_k": 0},
    SamplerStage.TYPICAL_P: {"typical_p": 1.0},
    SamplerStage.TOP_P: {"top_p": 1.0},
    SamplerStage.MIN_P: {"min_p": 0.0},
    SamplerStage.XTC: {"xtc_probability": 0.0},
    SamplerStage.TEMPERATURE: {"temperature": 1.0, "dynatemp_range": 0.0},
}


def _is_active(params: SamplingParams, stage: SamplerStage) -> bool:
    match stage:
        case SamplerStage.PENALTIES:
            is_on = params.repeat_penalty != 1 or params.frequency_penalty or params.presence_penalty
            return bool(is_on and params.repeat_last_n)
        case SamplerStage.DRY:
            return bool(params.dry_multiplier and params.dry_penalty_last_n)
        case SamplerStage.TOP_N_SIGMA:
            return params.top_n_sigma > 0
        case SamplerStage.TOP_K:
            return params.top_k > 0
        case SamplerStage.TYPICAL_P:
            return params.typical_p < 1
        case SamplerStage.TOP_P:
            return params.top_p < 1
        case SamplerStage.MIN_P:
            return params.min_p > 0
        case SamplerStage.XTC:
            # Above one half there are never two that are likely.
            return params.xtc_probability > 0 and params.xtc_threshold <= 0.5
        case SamplerStage.TEMPERATURE:
            return params.temperature != 1 or params.dynatemp_range > 0
