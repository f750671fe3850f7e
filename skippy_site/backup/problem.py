"""What can keep a backup from being made or used, as one line for the person who asked for it."""

from __future__ import annotations

import errno


class BackupProblem(Exception):
    """The message says what is wrong and what to do, and holds no secret."""


def disk_problem(error: OSError, doing: str) -> BackupProblem:
    """`doing` is what could not be done, as "writing /backups/a.tar"."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BackupProblem(f"the disk is full: {doing} was given up and nothing of it kept; make room")
    return BackupProblem(f"{doing} failed, and nothing of it was kept: {error.strerror or error}")
