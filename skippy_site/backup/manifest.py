"""What a backup says of itself, so that it can be judged before anything is done with it."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from skippy_site.backup.problem import BackupProblem

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "database.dump"
SETTINGS = "settings.env"
STATE_PREFIX, JOURNAL_PREFIX = "state/", "journal/"
# Nothing else is ever written into a state folder, whoever made the file.
_MEMBER = re.compile(
    rf"{DATABASE}|{SETTINGS}|(?:{STATE_PREFIX}|{JOURNAL_PREFIX})[A-Za-z0-9_][A-Za-z0-9_.-]{{0,200}}"
)


class MemberNote(msgspec.Struct, frozen=True):
    """One member: its length, and SHA-256 in hexadecimal digits."""

    num_bytes: int
    sha256: str


class ModelNote(msgspec.Struct, frozen=True):
    """A model's file in the state folder, which is not in the backup."""

    name: str
    num_bytes: int


class Manifest(msgspec.Struct, frozen=True):
    """`migrations` are those that the database had, as "app.name"; `num_rows` those of each table, and all of
    it of one moment."""

    format: int
    made_at: datetime
    postgres_major: int
    is_embedded: bool
    migrations: tuple[str, ...]
    num_rows: dict[str, int]
    models: tuple[ModelNote, ...]
    members: dict[str, MemberNote]

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


def read_manifest(data: bytes) -> Manifest:
    """Raises BackupProblem where it is none that this version can use."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError:
        raise BackupProblem("its manifest cannot be read") from None
    if manifest.format != FORMAT:
        raise BackupProblem(f"it is of format {manifest.format}, and this version reads format {FORMAT}")
    for name in manifest.members:
        if not _MEMBER.fullmatch(name):
            raise BackupProblem(f"it has a member that no backup has: {name[:100]!r}")
    if DATABASE not in manifest.members:
        raise BackupProblem("it has no database")
    return manifest
