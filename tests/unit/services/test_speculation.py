from __future__ import annotations

import pytest

from inference.domain.errors import InvalidRequest
from inference.domain.speculation import (
    SpeculationChoice,
    SpeculationMode,
    SpeculationRequest,
    SpeculationSettings,
)
from inference.services.speculation import speculation_request

OFF, LOOKUP, DRAFT = SpeculationMode.OFF, SpeculationMode.PROMPT_LOOKUP, SpeculationMode.DRAFT_MODEL
UNSET = SpeculationSettings()


def test_it_is_off_unless_somebody_says_so() -> None:
    assert speculation_request(None, UNSET, {LOOKUP, DRAFT}) is None


def test_a_request_may_turn_it_on_and_off() -> None:
    on = SpeculationSettings(mode=LOOKUP, max_draft_tokens=6)
    assert speculation_request(SpeculationChoice(LOOKUP), UNSET, {LOOKUP}) == SpeculationRequest(LOOKUP, 8)
    assert speculation_request(None, on, {LOOKUP}) == SpeculationRequest(LOOKUP, 6)
    assert speculation_request(SpeculationChoice(OFF), on, {LOOKUP}) is None
    assert speculation_request(SpeculationChoice(DRAFT), on, {LOOKUP, DRAFT}) == SpeculationRequest(DRAFT, 6)


@pytest.mark.parametrize(("asked", "given"), [(3, 3), (6, 6), (60, 6), (None, 6)])
def test_a_request_may_lower_the_length_of_drafts_and_not_raise_it(asked: int | None, given: int) -> None:
    settings = SpeculationSettings(mode=LOOKUP, max_draft_tokens=6)
    choice = SpeculationChoice(LOOKUP, asked)
    assert speculation_request(choice, settings, {LOOKUP}) == SpeculationRequest(LOOKUP, given)


def test_a_model_may_keep_the_choice_to_itself() -> None:
    settings = SpeculationSettings(mode=LOOKUP, allows_requests=False)
    for mode in (OFF, DRAFT):
        with pytest.raises(InvalidRequest, match="does not let requests choose") as caught:
            speculation_request(SpeculationChoice(mode), settings, {LOOKUP, DRAFT})
        assert caught.value.param == "speculation"
    same = SpeculationChoice(LOOKUP, 2)
    assert speculation_request(same, settings, {LOOKUP}) == SpeculationRequest(LOOKUP, 2)


def test_a_mode_that_the_model_lacks_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(InvalidRequest, match=r"'draft_model' is not available .*'prompt_lookup'") as caught:
        speculation_request(SpeculationChoice(DRAFT), UNSET, {LOOKUP})
    assert caught.value.param == "speculation.mode"


def test_what_a_model_is_set_to_and_cannot_do_is_left_out() -> None:
    """Its kind is no fault of the request, and the answer is the same."""
    settings = SpeculationSettings(mode=LOOKUP)
    assert speculation_request(None, settings, ()) is None
    assert speculation_request(SpeculationChoice(OFF), settings, ()) is None
