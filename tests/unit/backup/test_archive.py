"""The file of a backup is there whole or not at all, and what was changed in it is found."""

from __future__ import annotations

import resource
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skippy_site.backup.archive import BackupReader, BackupWriter
from skippy_site.backup.manifest import DATABASE, FORMAT, MANIFEST, Manifest, MemberNote
from skippy_site.backup.problem import BackupProblem

CONTENTS = {"state/secret_key": b"s" * 90, "journal/0001-2-ab.journal": b"", DATABASE: b"dump" * 40_000}


def manifest_of(members: dict[str, MemberNote], **changes: object) -> Manifest:
    fields: dict[str, object] = {
        "format": FORMAT,
        "made_at": datetime(2026, 11, 30, tzinfo=UTC),
        "postgres_major": 18,
        "is_embedded": True,
        "migrations": (),
        "num_rows": {},
        "models": (),
        "members": members,
        **changes,
    }
    return Manifest(**fields)  # type: ignore[arg-type]


def write(path: Path, contents: dict[str, bytes] | None = None, **changes: object) -> Path:
    writer = BackupWriter(path)
    for name, data in (CONTENTS if contents is None else contents).items():
        writer.add(name, iter([data[:1000], data[1000:]]))
    writer.finish(manifest_of(dict(writer.members), **changes))
    writer.give_up()
    return path


def test_what_was_written_is_read_and_others_may_not_read_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    reader = BackupReader(path)
    assert {name: b"".join(reader.chunks(name)) for name in reader.manifest.members} == CONTENTS
    reader.close()
    with tarfile.open(path) as plain:  # any tar reads it
        assert [*CONTENTS, MANIFEST] == plain.getnames()


def test_one_that_is_given_up_or_fails_leaves_nothing(tmp_path: Path) -> None:
    writer = BackupWriter(tmp_path / "a.tar")

    def failing() -> Iterator[bytes]:
        yield b"x"
        raise BackupProblem("pg_dump failed")

    with pytest.raises(BackupProblem, match="pg_dump"):
        writer.add(DATABASE, failing())
    writer.give_up()
    writer.give_up()
    assert not list(tmp_path.iterdir())


def test_what_a_killed_one_left_is_in_nobodys_way_and_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.tar.partial").write_bytes(b"half")
    write(tmp_path / "a.tar")
    with pytest.raises(BackupProblem, match="there already"):
        BackupWriter(tmp_path / "a.tar")
    assert [one.name for one in tmp_path.iterdir()] == ["a.tar"]


@pytest.mark.parametrize("place", [0.01, 0.3, 0.6, 0.9, 0.97])
def test_a_byte_that_changed_anywhere_is_found(tmp_path: Path, place: float) -> None:
    path = write(tmp_path / "a.tar")
    data = bytearray(path.read_bytes())
    at = int(place * len(data))
    data[at] ^= 0x20
    path.write_bytes(data)
    with pytest.raises(BackupProblem):
        BackupReader(path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_one_that_ends_early_is_found(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "a.tar")
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(BackupProblem):
        BackupReader(path)


@pytest.mark.parametrize(
    "name",
    [
        "state/../../etc/passwd",
        "/etc/passwd",
        "state/.bashrc",
        "journal/a/b",
        "models/x",
        "state/",
        "state/a\n",
    ],
)
def test_members_that_would_be_written_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.tar", {DATABASE: b"d", name: b"x"})
    with pytest.raises(BackupProblem):
        BackupReader(path)


def test_links_and_members_that_nobody_names_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar")
    with tarfile.open(path, "a") as tar:
        tar.addfile(tarfile.TarInfo("state/more"))
    with pytest.raises(BackupProblem):
        BackupReader(path)
    reader = BackupReader(write(tmp_path / "b.tar"))
    notes = dict(reader.manifest.members)
    reader.close()
    with tarfile.open(tmp_path / "c.tar", "w") as tar:
        for member in notes:
            link = tarfile.TarInfo(member)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
        (tmp_path / "m").write_bytes(manifest_of(notes).encode())
        tar.add(tmp_path / "m", MANIFEST)
    with pytest.raises(BackupProblem):
        BackupReader(tmp_path / "c.tar")


@pytest.mark.parametrize(
    ("contents", "changes", "problem"),
    [
        ({DATABASE: b"d"}, {"format": FORMAT + 1}, "of format 2"),
        ({"state/secret_key": b"s"}, {}, "no database"),
    ],
)
def test_what_this_version_cannot_use_is_told(tmp_path: Path, contents, changes, problem) -> None:
    path = write(tmp_path / "a.tar", contents, **changes)
    with pytest.raises(BackupProblem, match=problem):
        BackupReader(path)


def test_no_backup_at_all(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "text", tmp_path / "gone", tmp_path):
        with pytest.raises(BackupProblem, match="no backup"):
            BackupReader(path)


def test_a_disk_that_takes_no_more_leaves_no_half_file(tmp_path: Path) -> None:
    """The system's own refusal, by the limit on a file's size in another process."""
    script = (
        "import sys, pathlib\n"
        "from skippy_site.backup.archive import BackupWriter\n"
        "from skippy_site.backup.problem import BackupProblem\n"
        "writer = BackupWriter(pathlib.Path(sys.argv[1]))\n"
        "try:\n"
        "    writer.add('database.dump', iter([bytes(100_000)] * 10))\n"
        "except BackupProblem as problem:\n"
        "    print(problem)\n"
        "finally:\n"
        "    writer.give_up()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.tar")],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)),
    )
    assert "nothing of it was kept" in done.stdout
    assert not list(tmp_path.iterdir())
