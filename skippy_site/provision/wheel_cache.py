"""Keeps built llama.cpp wheels, each where only the machine that it fits will look.

A wheel's file name says nothing of the instruction sets in it, and pip's own cache looks at nothing
else; a wheel built for one CPU would be installed, and die, on another. Here everything that shapes
the build is part of the folder's name. Folders appear whole (rename) and one builder works at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

DESCRIPTION = "build.json"
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class BuildKey:
    """Everything that decides what a build contains."""

    version: str
    cmake_args: str
    compiler: str
    machine: str
    platform: str
    python: str
    flags: tuple[tuple[str, str], ...] = ()  # CFLAGS and the like, where the caller set them

    @property
    def digest(self) -> str:
        """16 hex digits of SHA-256 over all fields."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def folder_name(self) -> str:
        return f"{self.version}-{self.digest}"


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A wheel in the cache."""

    path: Path
    sha256: str
    key_digest: str


def default_cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """`$XDG_CACHE_HOME/skippy/wheels`, or the same under ~/.cache (XDG base directory specification)."""
    environment = os.environ if environment is None else environment
    given = environment.get("XDG_CACHE_HOME", "")
    root = Path(given) if Path(given).is_absolute() else Path("~/.cache").expanduser()
    return root / "skippy" / "wheels"


@dataclass(frozen=True, slots=True)
class WheelCache:
    """The folder that holds one folder for each build."""

    folder: Path

    @classmethod
    def of_user(cls, environment: Mapping[str, str], *, otherwise: Path) -> WheelCache:
        """The user's cache; `otherwise` for users without a home (services, containers)."""
        folder = default_cache_folder(environment)
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError:
            return cls(otherwise)
        return cls(folder if os.access(folder, os.W_OK | os.X_OK) else otherwise)

    def place_of(self, key: BuildKey) -> Path:
        return self.folder / key.folder_name

    def find(self, key: BuildKey) -> BuiltWheel | None:
        """The wheel built for `key`, if it is there and is what was put there."""
        place = self.place_of(key)
        try:
            description = json.loads((place / DESCRIPTION).read_text())
            wheel = place / description["wheel"]
            sha256 = file_sha256(wheel)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if sha256 != description["sha256"]:
            return None
        return BuiltWheel(wheel, sha256, key.digest)

    def publish(self, key: BuildKey, wheel: Path, *, notes: Mapping[str, str]) -> BuiltWheel:
        """Take a finished wheel in; the folder appears whole or not at all. Holds the key's lock."""
        sha256 = file_sha256(wheel)
        draft = self._scratch(key)
        try:
            shutil.copyfile(wheel, draft / wheel.name)
            description = {"wheel": wheel.name, "sha256": sha256, **asdict(key), **notes}
            (draft / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")
            draft.chmod(0o755)
            place = self.place_of(key)
            shutil.rmtree(place, ignore_errors=True)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return BuiltWheel(place / wheel.name, sha256, key.digest)

    @contextlib.contextmanager
    def building(self, key: BuildKey, *, waiting: Callable[[], None]) -> Iterator[Path]:
        """The right to build `key`, and an empty folder on the cache's disk to do it in.

        Another process that holds it is waited for (`waiting` is called about twice a second); look
        with `find` again once inside. The kernel lets go of the lock when its holder dies.
        """
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (self.folder / f".{key.folder_name}.lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    waiting()
                    time.sleep(POLL_S)
            # Nobody else works on this key now: what is left of a killed builder is nobody's.
            for left in self.folder.glob(f".{key.folder_name}-*"):
                shutil.rmtree(left, ignore_errors=True)
            scratch = self._scratch(key)
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _scratch(self, key: BuildKey) -> Path:
        return Path(tempfile.mkdtemp(prefix=f".{key.folder_name}-", dir=self.folder))


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
