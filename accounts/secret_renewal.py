"""What came of encrypting secrets anew, after the service's secret key was replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretRenewal:
    """Whose secrets are under the present key now (`renewed`), and whose nobody can read, which have to be
    entered or set up again. `num_current` were under the present key already."""

    renewed: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    num_current: int = 0


# What the history tells of a secret that was encrypted anew.
RENEWED_CHANGES = {"secret encrypted with": ["a former key", "the present key"]}
