"""Finds the user that an embedded Postgres runs as: Postgres refuses to run as root.

Started by an ordinary user, everything runs as that user and this module has nothing to do. Started
by root, Postgres gets a system user without a home and without a shell, made once; where none can
be made (a read-only /etc, no `useradd`), the user `nobody` does.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

ACCOUNT_NAME = "skippy-db"
FALLBACK_NAME = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, by the numbers that the kernel knows."""

    name: str
    uid: int
    gid: int

    @classmethod
    def named(cls, name: str) -> Account:
        """Raises KeyError if there is no such user."""
        entry = pwd.getpwnam(name)
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    @classmethod
    def current(cls) -> Account:
        """Whoever runs this process; the name is a number where /etc/passwd has none for it."""
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return cls(name, uid, os.getegid())

    def can_enter(self, folder: Path) -> bool:
        """Whether this user gets into `folder` through all of its ancestors, by trying it.

        Only meaningful for root, who can become another user; nothing is changed.
        """
        try:
            tried = subprocess.run(
                ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)],
                user=self.uid,
                group=self.gid,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                check=False,
            )
        except OSError:
            return False
        return tried.returncode == 0


def database_account(*, preferred: str = ACCOUNT_NAME) -> Account:
    """The system user for Postgres when root runs the service, made if need be."""
    with contextlib.suppress(KeyError):
        return Account.named(preferred)
    with contextlib.suppress(OSError, subprocess.SubprocessError, KeyError):
        subprocess.run(
            [
                "useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent",
                "--shell", "/usr/sbin/nologin", preferred,
            ],
            check=True,
            capture_output=True,
            timeout=30,
        )  # fmt: skip
        return Account.named(preferred)
    return Account.named(FALLBACK_NAME)


def owner_of(path: Path) -> Account:
    """The user that a file or folder belongs to."""
    found = path.stat()
    try:
        name = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        name = str(found.st_uid)
    return Account(name, found.st_uid, found.st_gid)
