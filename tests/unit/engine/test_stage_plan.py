from __future__ import annotations

from typing import Any

import pytest

from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage as Stage
from inference.engine.llama.stage_plan import plan_stages


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.0},
        {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0},
        {"repeat_penalty": 1.2, "presence_penalty": 1.0},
        {"stages": (Stage.TOP_K, Stage.TEMPERATURE)},
        {"stages": (Stage.XTC, Stage.TYPICAL_P, Stage.TEMPERATURE)},
        {"stages": ()},
        {"dry_multiplier": 1.0, "dry_penalty_last_n": 0},
        {"xtc_probability": 1.0, "xtc_threshold": 0.6},
        {"mirostat_mode": 2, "temperature": 0.0},
    ],
)
def test_what_the_fast_ways_can_draw_they_draw(fields: dict[str, Any]) -> None:
    assert plan_stages(SamplingParams(**fields))[1] is None


def test_a_stage_that_is_not_named_does_nothing() -> None:
    params, _ = plan_stages(SamplingParams(top_p=0.5, repeat_penalty=2.0, stages=(Stage.TOP_K,)))
    assert (params.top_k, params.top_p, params.min_p, params.temperature) == (40, 1.0, 0.0, 1.0)
    assert params.repeat_penalty == 1.0


@pytest.mark.parametrize(
    ("fields", "stages"),
    [
        ({"typical_p": 0.9, "top_k": 0}, (Stage.TYPICAL_P, Stage.TOP_P, Stage.MIN_P, Stage.TEMPERATURE)),
        ({"stages": (Stage.TEMPERATURE, Stage.TOP_K)}, (Stage.TEMPERATURE, Stage.TOP_K)),
        ({"stages": (Stage.TOP_K, Stage.TOP_K)}, (Stage.TOP_K, Stage.TOP_K)),
        ({"mirostat_mode": 1}, (Stage.TEMPERATURE,)),
        ({"mirostat_mode": 1, "temperature": 1.0}, ()),
        ({"mirostat_mode": 2, "dry_multiplier": 1.0}, (Stage.DRY, Stage.TEMPERATURE)),
        (
            {"dynatemp_range": 0.5},
            (Stage.TOP_K, Stage.TOP_P, Stage.MIN_P, Stage.TEMPERATURE),
        ),
    ],
)
def test_the_others_have_their_stages_in_order(fields: dict[str, Any], stages: tuple[Stage, ...]) -> None:
    assert plan_stages(SamplingParams(**fields))[1] == stages
