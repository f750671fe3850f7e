"""Who may use which model: what its key allows, and what the model's own row allows."""

from __future__ import annotations

from functools import partial

from accounts.contracts import Principal
from inference.domain.model_settings import ModelSettings
from inference.services.model_catalog import MayUse, adapter_model_id


def may_use_model(principal: Principal, settings: ModelSettings, adapter: str = "") -> bool:
    """Both have to allow it; a key by any name of the model, which covers its adapters, or an adapter by its
    own. Asked at every request anew: neither is remembered."""
    names = [settings.id, *settings.aliases]
    if adapter:
        names += [adapter_model_id(name, adapter) for name in names]
    by_key = principal.limits.allows_model(*names)
    return by_key and settings.access.allows(team_id=principal.team_id, key_id=principal.key_id)


def models_of(principal: Principal) -> MayUse:
    """The same as a question about models alone."""
    return partial(may_use_model, principal)
