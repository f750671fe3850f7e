"""Where the service keeps what must survive a restart, and what its processes tell each other.

Everything lives under one folder (`SKIPPY_HOME`, by default `.skippy` in the checkout), so that an
operator can back it up, move it or delete it as one thing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Names inside the state folder; makes nothing but folders, and those with mode 0700."""

    root: Path

    @classmethod
    def from_environment(cls) -> StateFolder:
        return cls(Path(os.environ.get("SKIPPY_HOME") or CHECKOUT / ".skippy").expanduser().absolute())

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def journal(self) -> Path:
        """Records that are not in the database yet, and requests that run."""
        return self.root / "journal"

    @property
    def run(self) -> Path:
        """Sockets, pid and lock files: things that mean nothing after a stop."""
        return self.root / "run"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def valkey(self) -> Path:
        return self.root / "valkey"

    @property
    def secret_key_file(self) -> Path:
        return self.root / "secret_key"

    @property
    def services_file(self) -> Path:
        """URLs of the services that the supervisor started, for commands run beside it (mode 0600)."""
        return self.run / "services.json"

    def make(self) -> None:
        """Create the folders that everything else expects."""
        for folder in (self.root, self.models, self.logs, self.journal, self.run):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
