"""The model of a service that was set up by its environment alone becomes the first row, once.

From then on the row is what holds; the environment's word is only compared with what is there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from inference.domain.adapters import AdapterSettings
from inference.domain.model import canonical_model_id
from inference.domain.model_settings import LoadPolicy, ModelSettings
from inference.domain.speculation import SpeculationSettings
from inference.model_rows.services import model_create, model_rows_changing
from inference.models import ModelRow
from inference.models.model_row import MAX_MODEL_ID_LENGTH

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FirstModel:
    """What the environment says. `is_named`: somebody wrote that source, it is not just the default."""

    id: str
    source: str
    projector_source: str = ""
    adapters: tuple[AdapterSettings, ...] = ()
    is_named: bool = True
    speculation: SpeculationSettings = field(default_factory=SpeculationSettings)


def model_row_ensure(*, first: FirstModel) -> ModelRow | None:
    """The row of `first`, made if there is no row at all; else None. Any number of processes may do it at
    once."""
    with model_rows_changing():
        if not ModelRow.objects.exists():
            made = model_create(settings=_settings(first))
            _log.info("the first model is %s, from %s", made.model_id, first.source)
            return made
        if first.is_named and not ModelRow.objects.filter(source=first.source).exists():
            _log.info(
                "SKIPPY_MODEL is not the source of any model: the models are those that were set up "
                "(manage.py model_list)"
            )
    return None


def _settings(first: FirstModel) -> ModelSettings:
    return ModelSettings(
        row_id=0,
        revision=0,
        id=_usable_id(first.id),
        source=first.source,
        projector_source=first.projector_source,
        is_default=True,
        load_policy=LoadPolicy.ALWAYS,
        has_embeddings=True,
        adapters=first.adapters,
        speculation=first.speculation,
    )


def _usable_id(text: str) -> str:
    """Made from a file's name perhaps, in which anything may stand."""
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return canonical_model_id(shown)[:MAX_MODEL_ID_LENGTH].strip() or "model"
