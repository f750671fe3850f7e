"""What a check of the machine found, as one plain line and, where it is not well, what to do."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


class Level(enum.Enum):
    """How much a finding matters to the service."""

    OK = "ok"
    WARNING = "warning"  # it runs, but worse or not for long
    PROBLEM = "problem"  # it cannot run


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    level: Level
    subject: str
    text: str
    advice: str = ""

    def line(self) -> str:
        advice = f"\n         → {self.advice}" if self.advice and self.level is not Level.OK else ""
        return f"{self.level.value:8} {self.subject}: {self.text}{advice}"


def ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def warning(subject: str, text: str, advice: str = "") -> Finding:
    return Finding(Level.WARNING, subject, text, advice)


def problem(subject: str, text: str, advice: str = "") -> Finding:
    return Finding(Level.PROBLEM, subject, text, advice)


Check = Callable[[], Iterable[Finding]]


def run_checks(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """The findings of all checks; one that fails itself is a finding and stops none of the others."""
    for subject, check in checks:
        try:
            yield from check()
        except Exception as failure:
            text = " ".join(str(failure).split()) or type(failure).__name__
            yield problem(subject, f"could not be checked ({type(failure).__name__}: {text})")
