"""How secrets of second factors are kept: as those of webhooks, under a key of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from hooks.secrets import SecretBox, SecretUnreadable

_USE = b"skippy: secrets of second factors"
_OWNER = "of second factors"


class FactorBox:
    """What `settings.SECOND_FACTOR_BOX` names."""

    def __init__(self) -> None:
        self._box = SecretBox(settings.SECRET_KEY, older=settings.SECRET_KEY_FALLBACKS, use=_USE)

    def seal(self, secret: str) -> str:
        return self._box.seal(secret)

    def open(self, sealed: str) -> str:
        """Raises ValueError where it was sealed with another key."""
        with _as_value_error():
            return self._box.open(sealed, owner=_OWNER)

    def sealed_anew(self, sealed: str) -> str | None:
        """The same secret under the present key; None where it is that already. Raises ValueError, too."""
        with _as_value_error():
            return self._box.sealed_anew(sealed, owner=_OWNER)


@contextmanager
def _as_value_error() -> Iterator[None]:
    try:
        yield
    except SecretUnreadable:
        raise ValueError("sealed with another secret key") from None
