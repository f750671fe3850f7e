"""The file of a backup: a tar that ends with a manifest, and is there whole or not at all.

A database's dump comes out of a program at a length that nobody knows before. So a member's header is
written once its bytes are, into the place that was left for it: nothing lies on the disk twice. The file is
called `….partial` until all of it is on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from skippy_site.backup.manifest import MANIFEST, Manifest, MemberNote, read_manifest
from skippy_site.backup.problem import BackupProblem, disk_problem

CHUNK_BYTES = 1024 * 1024
_MAX_MANIFEST_BYTES = 64 * 1024 * 1024


class BackupWriter:
    """Members one behind the other, then `finish`; `give_up` leaves nothing. Raises BackupProblem."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.members: dict[str, MemberNote] = {}
        self.num_bytes = 0
        self._draft = target.with_name(f"{target.name}.partial")
        if target.exists():
            raise BackupProblem(f"{target} is there already")
        try:
            # One that was killed left its own.
            self._draft.unlink(missing_ok=True)
            descriptor = os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise disk_problem(error, f"writing {target}") from None
        self._file = os.fdopen(descriptor, "w+b")

    def add(self, name: str, chunks: Iterator[bytes]) -> None:
        """A member with these bytes. What `chunks` raises goes through."""
        digest, num_bytes = hashlib.sha256(), 0
        header_at = self._file.tell()
        self._write(bytes(tarfile.BLOCKSIZE))
        for chunk in chunks:
            self._write(chunk)
            digest.update(chunk)
            num_bytes += len(chunk)
        self._write(bytes(-num_bytes % tarfile.BLOCKSIZE))
        end_at = self._file.tell()
        self._file.seek(header_at)
        self._write(_header(name, num_bytes))
        self._file.seek(end_at)
        self.members[name] = MemberNote(num_bytes, digest.hexdigest())
        self.num_bytes += num_bytes

    def finish(self, manifest: Manifest) -> None:
        """The whole file is on the disk, under its name, when this returns."""
        self.add(MANIFEST, iter([manifest.encode()]))
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._draft.rename(self.target)
            _sync_folder(self.target.parent)
        except OSError as error:
            raise disk_problem(error, f"writing {self.target}") from None

    def give_up(self) -> None:
        """May be called at any time; nothing happens after `finish`."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._draft.unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise disk_problem(error, f"writing {self.target}") from None


class BackupReader:
    """A backup whose every byte was compared with its checksum. Raises BackupProblem where one is not so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115 - closed by close()
        except (OSError, tarfile.TarError):
            raise BackupProblem(f"{path} is no backup that can be read") from None
        try:
            self.manifest = self._checked()
        except (OSError, tarfile.TarError):
            self.close()
            raise BackupProblem(f"{path} is damaged: it ends too early, or was changed") from None
        except BackupProblem as problem:
            self.close()
            raise BackupProblem(f"{path} cannot be used: {problem}") from None

    def chunks(self, name: str) -> Iterator[bytes]:
        with self._member(name) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def close(self) -> None:
        self._tar.close()

    def _checked(self) -> Manifest:
        found = self._tar.getmembers()
        if not all(member.isreg() for member in found):
            raise BackupProblem("it has links or folders, and no backup has any")
        if not found or found[-1].name != MANIFEST or found[-1].size > _MAX_MANIFEST_BYTES:
            raise BackupProblem("it ends too early")
        manifest = read_manifest(b"".join(self.chunks(MANIFEST)))
        if sorted([one.name for one in found[:-1]]) != sorted(manifest.members):
            raise BackupProblem("its members are not those that its manifest names")
        for member in found[:-1]:
            note = manifest.members[member.name]
            digest = hashlib.sha256()
            for chunk in self.chunks(member.name):
                digest.update(chunk)
            if member.size != note.num_bytes or digest.hexdigest() != note.sha256:
                raise BackupProblem(f"{member.name} is not what was written")
        return manifest

    def _member(self, name: str) -> BinaryIO:
        file = self._tar.extractfile(name)
        if file is None:
            raise BackupProblem(f"{name} is no file")
        return file  # type: ignore[return-value]


def _header(name: str, num_bytes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = num_bytes, 0o600, int(time.time())
    # GNU's form has room for members of any length.
    return info.tobuf(tarfile.GNU_FORMAT)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
