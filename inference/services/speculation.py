"""How an answer is drafted: as the request says where the model lets it, else as the model is set."""

from __future__ import annotations

from collections.abc import Collection

from inference.domain.errors import InvalidRequest
from inference.domain.speculation import (
    SpeculationChoice,
    SpeculationMode,
    SpeculationRequest,
    SpeculationSettings,
)

_PARAM = "speculation"


def speculation_request(
    choice: SpeculationChoice | None, settings: SpeculationSettings, modes: Collection[SpeculationMode]
) -> SpeculationRequest | None:
    """None: without drafts. `modes` are those that the loaded model has, beside OFF.

    What a request asks for and the model cannot do is refused (InvalidRequest); what a model is set to do and
    cannot, because of its kind, is left out: an answer is the same without. A request may lower the length of
    drafts and not raise it.
    """
    mode = settings.mode
    max_draft_tokens = settings.max_draft_tokens
    if choice is not None:
        if choice.mode is not settings.mode and not settings.allows_requests:
            raise InvalidRequest(
                f"Invalid '{_PARAM}': this model does not let requests choose how they are drafted.",
                param=_PARAM,
            )
        if choice.mode is not SpeculationMode.OFF and choice.mode not in modes:
            offered = ", ".join(
                f"'{one.value}'" for one in SpeculationMode if one in (SpeculationMode.OFF, *modes)
            )
            raise InvalidRequest(
                f"Invalid '{_PARAM}.mode': '{choice.mode.value}' is not available with this model, which has "
                f"{offered}.",
                param=f"{_PARAM}.mode",
            )
        mode = choice.mode
        if choice.max_draft_tokens is not None:
            max_draft_tokens = min(max_draft_tokens, choice.max_draft_tokens)
    if mode is SpeculationMode.OFF or mode not in modes:
        return None
    return SpeculationRequest(mode, max_draft_tokens)
