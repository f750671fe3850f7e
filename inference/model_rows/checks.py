"""What about a model only the site can tell: whether engine settings can be, whether a file is a model.

The site names what makes its own in the setting MODEL_CHECKS; inference does not know the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from django.conf import settings
from django.utils.module_loading import import_string


class ModelChecks(Protocol):
    """Both raise InvalidRequest whose `param` begins with what is at fault."""

    def check_sizes(self, *, engine: Mapping[str, Any], admission: Mapping[str, Any]) -> None:
        """Whether these settings, over the service's own, are ones an engine, and the admission before it,
        can be made with."""
        ...

    def check_source(self, source: str, *, param: str) -> None:
        """Whether this is a GGUF file that can be read, or the name of one on a hub (which is not asked)."""
        ...


def model_checks() -> ModelChecks:
    found: ModelChecks = import_string(settings.MODEL_CHECKS)()
    return found
