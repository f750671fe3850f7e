from __future__ import annotations

from dataclasses import replace

import pytest

from inference.domain.adapters import AdapterSettings
from inference.domain.model_settings import LoadPolicy, ModelAccess, ModelState
from inference.domain.speculation import SpeculationSettings
from inference.hosting.standing import Situation, Standing, Step, load_key, next_step, standing_of
from tests.scripted_fleet import row


@pytest.mark.parametrize(
    ("policy", "wants_loaded", "standing"),
    [
        (LoadPolicy.ALWAYS, None, Standing.LOADED),
        (LoadPolicy.ON_DEMAND, None, Standing.ON_DEMAND),
        (LoadPolicy.BY_HAND, None, Standing.UNLOADED),
        *[(policy, True, Standing.LOADED) for policy in LoadPolicy],
        *[(policy, False, Standing.UNLOADED) for policy in LoadPolicy],
    ],
)
def test_an_operators_word_goes_before_the_policy(policy, wants_loaded, standing):
    assert standing_of(row(load_policy=policy, wants_loaded=wants_loaded)) is standing


@pytest.mark.parametrize(
    "change",
    [
        {"source": "other.gguf"},
        {"projector_source": "eyes.gguf"},
        {"engine": {"lanes": 2}},
        {"has_embeddings": True},
        {"adapters": (AdapterSettings(name="a", source="a.gguf"),)},
        {"admission": {"queue": 3}},
        {"speculation": SpeculationSettings(draft_source="small.gguf")},
    ],
)
def test_what_a_model_is_made_of_needs_a_new_load(change):
    assert load_key(replace(row(), **change)) != load_key(row())


def test_all_else_does_not():
    other = replace(
        row(),
        revision=9,
        id="another",
        aliases=("x",),
        is_default=True,
        load_policy=LoadPolicy.ON_DEMAND,
        wants_loaded=True,
        idle_unload_s=5.0,
        chat_defaults={"temperature": 0},
        access=ModelAccess(is_open=False),
    )
    assert load_key(other) == load_key(row())


READY, FAILED, UNLOADED = ModelState.READY, ModelState.FAILED, ModelState.UNLOADED


@pytest.mark.parametrize(
    ("state", "standing", "more", "step"),
    [
        (UNLOADED, Standing.LOADED, {}, Step.LOAD),
        (UNLOADED, Standing.ON_DEMAND, {}, Step.NONE),
        (UNLOADED, Standing.ON_DEMAND, {"is_demanded": True}, Step.LOAD),
        (UNLOADED, Standing.UNLOADED, {"is_demanded": True}, Step.NONE),
        (READY, Standing.LOADED, {}, Step.NONE),
        (READY, Standing.LOADED, {"is_unused": True}, Step.NONE),
        (READY, Standing.LOADED, {"is_outdated": True}, Step.UNLOAD),
        (READY, Standing.ON_DEMAND, {}, Step.NONE),
        (READY, Standing.ON_DEMAND, {"is_unused": True}, Step.UNLOAD),
        (READY, Standing.UNLOADED, {}, Step.UNLOAD),
        (FAILED, Standing.LOADED, {"may_retry": False}, Step.NONE),
        (FAILED, Standing.LOADED, {"may_retry": False, "is_outdated": True}, Step.LOAD),
        (FAILED, Standing.LOADED, {}, Step.LOAD),
        (FAILED, Standing.ON_DEMAND, {}, Step.NONE),
        (FAILED, Standing.ON_DEMAND, {"is_demanded": True}, Step.LOAD),
        (FAILED, Standing.UNLOADED, {}, Step.FORGET),
    ],
)
def test_the_next_step_follows_from_what_is_wanted_and_what_is(state, standing, more, step):
    assert next_step(Situation(state=state, standing=standing, **more)) is step


@pytest.mark.parametrize("state", [ModelState.LOADING, ModelState.DRAINING])
@pytest.mark.parametrize("standing", list(Standing))
def test_what_goes_on_is_never_interfered_with(state, standing):
    now = Situation(state=state, standing=standing, is_outdated=True, is_demanded=True, is_unused=True)
    assert next_step(now) is Step.NONE
