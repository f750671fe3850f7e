"""What of a state folder goes into a backup beside the database, and comes back.

Secrets lie at the top of the folder, in small files of their own; whatever is there goes along, so that a
secret that is added later is not forgotten. The journal goes along for the requests that ran and the records
that the database had not taken. Models are not copied: they are large, and can be had again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from skippy_site.backup.manifest import JOURNAL_PREFIX, STATE_PREFIX, ModelNote
from skippy_site.backup.problem import BackupProblem, disk_problem
from skippy_site.state import StateFolder

_CHUNK_BYTES = 1024 * 1024
# Where the cluster of this one folder is; it means nothing to another.
_NOT_KEPT = frozenset({"postgres.location"})
JOURNALS = ("*.journal", "quarantine.jsonl")
_ASIDE = ".before-restore"
# What is larger is no secret: somebody's copy of something, a backup perhaps.
_MAX_SECRET_BYTES = 1024 * 1024


def kept_files(state: StateFolder) -> Iterator[tuple[str, Path]]:
    """Names of members, and the files that they are of."""
    for path in sorted(state.root.iterdir()):
        is_ours = not path.name.startswith(".") and not path.name.endswith(_ASIDE)
        if not is_ours or path.name in _NOT_KEPT or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= _MAX_SECRET_BYTES:
            yield f"{STATE_PREFIX}{path.name}", path
    for pattern in JOURNALS:
        for path in sorted(state.journal.glob(pattern)):
            yield f"{JOURNAL_PREFIX}{path.name}", path


def file_chunks(path: Path) -> Iterator[bytes]:
    """As long as the file was when it was opened: a journal grows meanwhile. Nothing where it is gone."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk


def models_of(state: StateFolder) -> tuple[ModelNote, ...]:
    """Files that whoever restores this has to bring along, or that are fetched again."""
    found = [path for path in state.models.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return tuple(
        [ModelNote(str(path.relative_to(state.models)), path.stat().st_size) for path in sorted(found)]
    )


def settings_text(variables: Mapping[str, str]) -> bytes:
    """The settings as whoever made the backup had them, to be read by a person. Addresses of services stay
    out: they are another installation's, and hold passwords."""
    lines = [f"{name}={value!r}" for name, value in sorted(variables.items()) if name.startswith("SKIPPY_")]
    return "".join([f"{line}\n" for line in lines]).encode("utf-8", "surrogateescape")


def check_is_unused(state: StateFolder) -> None:
    """Raises BackupProblem where something would be lost."""
    if any(path for pattern in JOURNALS for path in state.journal.glob(pattern)):
        raise BackupProblem(
            f"{state.journal} has journals of a service that ran there: restore into another SKIPPY_HOME"
        )


def put_back(state: StateFolder, member: str, chunks: Iterator[bytes]) -> None:
    """Write a member's file; one that is there and says something else is kept under another name."""
    if member.startswith(STATE_PREFIX):
        target = state.root / member.removeprefix(STATE_PREFIX)
    else:
        target = state.journal / member.removeprefix(JOURNAL_PREFIX)
    draft = target.with_name(f".{target.name}.partial")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if target.exists() and target.read_bytes() != draft.read_bytes():
            target.rename(target.with_name(f"{target.name}{_ASIDE}"))
        draft.rename(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise disk_problem(error, f"writing {target}") from None
