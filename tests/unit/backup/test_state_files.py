from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from skippy_site.backup.problem import BackupProblem, disk_problem
from skippy_site.backup.state_files import (
    check_is_unused,
    file_chunks,
    kept_files,
    models_of,
    put_back,
    settings_text,
)
from skippy_site.state import StateFolder


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path / "home")
    made.make()
    return made


def test_secrets_and_journals_are_kept_and_nothing_else(state: StateFolder) -> None:
    state.secret_key_file.write_text("s")
    (state.root / "another_secret").write_text("t")
    (state.root / "postgres.location").write_text("/var/lib/x")
    (state.root / ".hidden").write_text("h")
    (state.root / "link").symlink_to("/etc/passwd")
    (state.root / "old-backup.tar").write_bytes(bytes(2_000_000))
    (state.journal / "1-2-a.journal").write_text("{}\n")
    (state.journal / "quarantine.jsonl").write_text("{}\n")
    (state.journal / "notes.txt").write_text("x")
    (state.models / "m.gguf").write_bytes(b"GGUF")
    names = [name for name, _ in kept_files(state)]
    assert names == [
        "state/another_secret",
        "state/secret_key",
        "journal/1-2-a.journal",
        "journal/quarantine.jsonl",
    ]
    assert [(one.name, one.num_bytes) for one in models_of(state)] == [("m.gguf", 4)]


def test_a_file_that_grows_is_read_as_it_was_and_one_that_goes_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(b"one\n")
    chunks = file_chunks(path)
    first = next(chunks)
    with path.open("ab") as file:
        file.write(b"two\n")
    assert first + b"".join(chunks) == b"one\n"
    path.unlink()
    assert list(file_chunks(path)) == []


def test_settings_are_ours_alone() -> None:
    given = {
        "SKIPPY_PORT": "1",
        "SKIPPY_MODEL": "a\nb",
        "DATABASE_URL": "postgresql://u:secret@h/d",
        "PATH": "/",
    }
    assert settings_text(given).decode() == "SKIPPY_MODEL='a\\nb'\nSKIPPY_PORT='1'\n"


def test_what_comes_back_is_closed_to_others_and_what_was_there_is_kept(state: StateFolder) -> None:
    state.secret_key_file.write_bytes(b"new")
    put_back(state, "state/secret_key", iter([b"o", b"ld"]))
    put_back(state, "journal/1-2-a.journal", iter([b"{}\n"]))
    assert state.secret_key_file.read_bytes() == b"old"
    assert state.secret_key_file.stat().st_mode & 0o777 == 0o600
    assert (state.root / "secret_key.before-restore").read_bytes() == b"new"
    assert (state.journal / "1-2-a.journal").read_bytes() == b"{}\n"
    put_back(state, "state/secret_key", iter([b"old"]))
    assert (state.root / "secret_key.before-restore").read_bytes() == b"new"
    assert "state/secret_key.before-restore" not in dict(kept_files(state))


def test_a_folder_with_journals_is_not_restored_into(state: StateFolder) -> None:
    check_is_unused(state)
    (state.journal / "1-2-a.journal").write_text("{}\n")
    with pytest.raises(BackupProblem, match="another SKIPPY_HOME"):
        check_is_unused(state)


def test_a_full_disk_is_told_as_one() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(disk_problem(full, "writing /a")).startswith("the disk is full: writing /a was given up")
    other = OSError(errno.EACCES, os.strerror(errno.EACCES))
    assert "Permission denied" in str(disk_problem(other, "writing /a"))
