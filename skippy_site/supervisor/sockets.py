"""Puts Unix sockets where their paths fit and where nobody else can reach or fake them.

A socket's path has at most 107 bytes on Linux (`sun_path`, unix(7)), and a state folder may lie
deeper than that. The service's own folder is used where it is short enough; else a short folder
under /tmp whose name follows from the state folder, so that every process finds it without asking.

/tmp is everybody's: the short folder counts only if it is a true directory (no symbolic link) that
belongs to us with mode 0700. Anything else there is refused, never repaired or followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from skippy_site.supervisor.problems import ServiceProblem

# 107 bytes less "/.s.PGSQL.5432.lock", the longest name that a server puts beside its socket.
MAX_FOLDER_BYTES = 88
SHORT_PARENT = Path("/tmp")  # noqa: S108


def home_hash(home: Path) -> str:
    """Twelve hexadecimal digits that tell one state folder from another."""
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:12]


def socket_folder(preferred: Path, *, home: Path, purpose: str) -> Path:
    """`preferred` if a socket fits in it, else the short folder of this state folder. Makes nothing."""
    # libpq takes a comma for the end of one host and the beginning of the next.
    if len(os.fsencode(preferred)) <= MAX_FOLDER_BYTES and "," not in str(preferred):
        return preferred
    return SHORT_PARENT / f"skippy-{home_hash(home)}-{purpose}"


def make_private_folder(folder: Path, *, uid: int, gid: int) -> None:
    """Make `folder` (its parent exists) with mode 0700 for `uid`, or check that it is just that.

    Raises ServiceProblem where something else has the name, so that nobody who may write to the
    parent can slip us a folder of theirs.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ServiceProblem(f"{folder} cannot be made: {error.strerror}") from None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ServiceProblem(f"{folder} is not a folder of ours ({error.strerror}): remove it") from None
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in (uid, os.geteuid()):
            raise ServiceProblem(f"{folder} belongs to another user: remove it or move SKIPPY_HOME")
        if found.st_uid != uid or found.st_gid != gid:
            os.fchown(descriptor, uid, gid)
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def remove_short_folder(folder: Path) -> None:
    """Remove a short folder under /tmp after a stop; folders inside the state folder stay."""
    if folder.parent != SHORT_PARENT or folder.is_symlink():
        return
    try:
        for leftover in folder.iterdir():
            leftover.unlink()
        folder.rmdir()
    except OSError:
        return
