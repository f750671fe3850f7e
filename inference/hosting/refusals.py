"""What callers are told of a model that they may use and cannot have now. Causes are for operators."""

from __future__ import annotations

import math

from inference.domain.errors import ServiceUnavailable
from inference.domain.model_settings import ModelState
from inference.hosting.standing import Standing


def not_loaded(id: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"The model '{id}' is not loaded.")


def still_loading(id: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"The model '{id}' is still being loaded.")


def has_failed(id: str, retry_s: float) -> ServiceUnavailable:
    """`retry_s`: until it is tried again."""
    return ServiceUnavailable(
        f"The model '{id}' could not be loaded.", retry_after_s=max(1, math.ceil(retry_s))
    )


def check_worth_waiting(
    id: str, *, state: ModelState, standing: Standing, is_dead: bool, retry_s: float
) -> None:
    """Raise ServiceUnavailable where no load is to be waited for: only those on demand are, whether they
    are coming or going."""
    if standing is Standing.UNLOADED:
        raise not_loaded(id)
    if is_dead:
        raise ServiceUnavailable("The service cannot generate now: its engine has stopped.")
    if state is ModelState.FAILED and retry_s:
        raise has_failed(id, retry_s)
    if standing is Standing.LOADED:
        raise still_loading(id)
