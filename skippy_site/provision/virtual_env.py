"""The checkout's .venv: made once, filled from the locks, and left alone while nothing changed.

What is installed is remembered in stamp files inside the environment, so that an ordinary start runs
no pip at all (a `pip install` that finds everything in place still takes seconds).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skippy_site.provision.child_processes import ChildProcesses, pip_command
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.progress import Step
from skippy_site.provision.requirement_files import RequirementFile
from skippy_site.state import CHECKOUT

NETWORK_ADVICE = (
    "if it could not reach the package index, check the network, proxy and pip settings (`pip config list`); "
    "then run the same command again: what is done already is kept."
)


@dataclass(frozen=True, slots=True)
class VirtualEnv:
    """A virtual environment and the record of what was put into it."""

    folder: Path

    @classmethod
    def of_checkout(cls) -> VirtualEnv:
        return cls(CHECKOUT / ".venv")

    @classmethod
    def running(cls) -> VirtualEnv:
        """The environment of the Python that runs this."""
        return cls(Path(sys.prefix))

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def stamps(self) -> Path:
        return self.folder / "skippy"

    @property
    def site_packages(self) -> Path:
        """Where its packages are; raises ProvisionProblem if it is not an environment."""
        found = sorted(self.folder.glob("lib/python3*/site-packages"))
        if not found:
            raise ProvisionProblem(f"{self.folder} holds no site-packages", advice="`make clean`, then again")
        return found[0]

    def is_usable(self) -> bool:
        """Whether its Python is there, is the one that it was made with, and has pip.

        An interrupted creation, or a system Python that was upgraded away, fails this.
        """
        if not os.access(self.python, os.X_OK):
            return False
        try:
            configured = (self.folder / "pyvenv.cfg").read_text()
        except OSError:
            return False
        version = re.search(r"^version(?:_info)? *= *(\d+\.\d+)", configured, re.MULTILINE)
        if version is None:
            return False
        library = self.folder / "lib" / f"python{version[1]}" / "site-packages"
        # A base Python of another version behind the same link would look into another folder.
        base = Path(os.path.realpath(self.python)).name
        is_same = not re.fullmatch(r"python3\.\d+", base) or base == f"python{version[1]}"
        return is_same and (library / "pip" / "__init__.py").is_file()

    def make(
        self,
        children: ChildProcesses,
        step: Step,
        *,
        log: Path,
        environment: Mapping[str, str],
        python: Path | None = None,
    ) -> None:
        """Create the environment if there is no usable one; `python` is what it is made with."""
        if self.is_usable():
            return
        require_venv_module()
        step.update("making the virtual environment")
        if self.folder.exists():
            step.say(f"{self.folder.name} is not usable (interrupted, or its Python is gone): made anew")
        children.run(
            [python or sys.executable, "-m", "venv", "--clear", self.folder],
            log=log,
            environment=environment,
            what="Making the virtual environment",
            advice="install Python's venv module (Debian: apt-get install python3-venv), then run it again",
        )
        step.end(f"made the virtual environment {self.folder.name}")

    def has(self, requirements: RequirementFile) -> bool:
        """Whether exactly this state of the file was installed."""
        try:
            return self._stamp(requirements).read_text() == requirements.digest
        except OSError:
            return False

    def install(
        self,
        requirements: RequirementFile,
        children: ChildProcesses,
        step: Step,
        *,
        log: Path,
        environment: Mapping[str, str],
        also: tuple[RequirementFile, ...] = (),
    ) -> None:
        """Install a lock, every file checked against its hash; `also` names locks that it contains."""
        if self.has(requirements):
            return
        # Read before pip reads the files: a checkout that is updated meanwhile must not pass for installed.
        digests = {file: file.digest for file in (requirements, *also)}
        num_pins = len(requirements.pins())
        num_seen = 0

        def follow(line: str) -> None:
            nonlocal num_seen
            if line.startswith(("Collecting ", "Requirement already satisfied: ")):
                num_seen += 1
                step.update(f"{min(num_seen, num_pins)} of {num_pins} packages found")
            elif line.startswith("Installing collected packages"):
                step.update(f"installing {num_pins} packages")

        step.update("starting pip")
        children.run(
            pip_command(self.python, "install", "--require-hashes", "-r", requirements.path),
            log=log,
            environment=environment,
            what="Installing the dependencies",
            advice=NETWORK_ADVICE,
            on_line=follow,
        )
        self.stamps.mkdir(exist_ok=True)
        for file, digest in digests.items():
            self._stamp(file).write_text(digest)
        step.end(f"{num_pins} packages in place")

    def _stamp(self, requirements: RequirementFile) -> Path:
        return self.stamps / f"{requirements.name}.sha256"


def require_venv_module() -> None:
    """Debian splits venv's half that brings pip into a package of its own; say so before it fails."""
    try:
        import ensurepip
        import venv
    except ImportError as missing:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ProvisionProblem(
            f"This Python ({sys.executable}) cannot make virtual environments: {missing.name} is missing.",
            advice=f"apt-get install python{version}-venv (or python3-venv), or name another Python: "
            "make serve PYTHON=/path/to/python3.11",
        ) from None
    del ensurepip, venv
