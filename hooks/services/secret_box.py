"""The site's way of keeping secrets, by the name that the setting HOOK_SECRET_BOX has."""

from __future__ import annotations

from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string


class SecretSealer(Protocol):
    """Implemented by hooks.secrets.SecretBox."""

    def seal(self, secret: str) -> str:
        """What may be stored: ASCII, another text each time."""
        ...

    def open(self, sealed: str, *, owner: str) -> str:
        """The secret. Raises hooks.secrets.SecretUnreadable, which names `owner`."""
        ...

    def sealed_anew(self, sealed: str, *, owner: str) -> str | None:
        """The same secret under the service's present key; None where it is that already. Raises
        SecretUnreadable."""
        ...


def secret_box() -> SecretSealer:
    found: SecretSealer = import_string(settings.HOOK_SECRET_BOX)()
    return found
