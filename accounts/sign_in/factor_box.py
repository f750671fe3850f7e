"""The site's way of keeping secrets of second factors, by the name that the setting SECOND_FACTOR_BOX has."""

from __future__ import annotations

from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string


class FactorSealer(Protocol):
    """Implemented by skippy_site.second_factors.FactorBox."""

    def seal(self, secret: str) -> str:
        """What may be stored."""
        ...

    def open(self, sealed: str) -> str:
        """Raises ValueError where it was sealed with another key."""
        ...

    def sealed_anew(self, sealed: str) -> str | None:
        """The same secret under the present key; None where it is that already. Raises ValueError, too."""
        ...


def factor_box() -> FactorSealer:
    found: FactorSealer = import_string(settings.SECOND_FACTOR_BOX)()
    return found
