"""What stops a preparation, said so that a person can act on it."""

from __future__ import annotations


class ProvisionProblem(Exception):
    """A step cannot be done. `str()` is what happened; `advice` is what to do about it."""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice

    def explain(self) -> str:
        """The text for a terminal: what happened, then what to do."""
        return f"{self}\n\nWhat to do: {self.advice}" if self.advice else str(self)


class Interrupted(Exception):
    """The preparation was told to stop while this step ran."""
