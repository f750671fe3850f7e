"""The locked requirements: which files there are, what they pin, and what state of them is installed.

Sources: pip's requirements format (one `name==version \\` line, hashes on the lines that follow) as
pip-compile writes it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from skippy_site.state import CHECKOUT

FOLDER = CHECKOUT / "requirements"
PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)")


@dataclass(frozen=True, slots=True)
class RequirementFile:
    """One locked file under requirements/."""

    path: Path

    @classmethod
    def named(cls, name: str) -> RequirementFile:
        return cls(FOLDER / f"{name}.txt")

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def digest(self) -> str:
        """SHA-256 of the file, to tell whether what is installed is still what is asked for."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def pins(self) -> dict[str, str]:
        """Normalised name → version of everything that the file pins."""
        found = (PIN.match(line) for line in self.path.read_text().splitlines())
        return {normalise(match["name"]): match["version"] for match in found if match}

    def only_version(self) -> str:
        """The version in a file that pins one package."""
        (version,) = self.pins().values()
        return version


def normalise(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


RUNTIME = RequirementFile.named("runtime")
DEV = RequirementFile.named("dev")
BUILD = RequirementFile.named("build")
LLAMA = RequirementFile.named("llama")
MODEL = RequirementFile.named("model")
