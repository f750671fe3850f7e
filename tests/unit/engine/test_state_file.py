"""Files of KV state: whole or not there, and never believed on their word."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from inference.engine.state_file import DamagedState, folder_secret, state_read, state_write

KEY, SECRET = b"k" * 32, b"s" * 32
DATA = np.arange(1000, dtype=np.uint8)


def write(path: Path) -> int:
    return state_write(path, key=KEY, data=DATA, secret=SECRET)


def read(path: Path, *, key: bytes = KEY, secret: bytes = SECRET, max_bytes: int = 10_000) -> np.ndarray:
    return state_read(path, key=key, secret=secret, max_bytes=max_bytes)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.kv"
    assert write(path) == path.stat().st_size
    assert (read(path) == DATA).all()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("index", [0, 7, 8, 39, 40, 71, 72, 500, -1])
def test_a_bit_that_changed_anywhere_is_noticed(tmp_path: Path, index: int) -> None:
    path = tmp_path / "a.kv"
    write(path)
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedState):
        read(path)


@pytest.mark.parametrize("size", [0, 1, 71, 72, 500])
def test_a_file_that_was_cut_off_is_noticed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.kv"
    write(path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DamagedState):
        read(path)


def test_files_of_others_and_under_other_names_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.kv"
    write(path)
    with pytest.raises(DamagedState):
        read(path, secret=b"t" * 32)
    with pytest.raises(DamagedState):
        read(path, key=b"l" * 32)
    with pytest.raises(DamagedState):
        read(path, max_bytes=500)


def test_links_pipes_and_folders_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.kv"
    write(path)
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder", "none"):
        with pytest.raises((DamagedState, OSError)):
            read(tmp_path / name)


def test_where_it_cannot_be_written_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.kv").mkdir()
    (tmp_path / "a.kv" / "inside").touch()
    with pytest.raises(OSError, match="directory"):
        write(tmp_path / "a.kv")
    assert [path.name for path in tmp_path.iterdir()] == ["a.kv"]


def test_a_folder_has_one_secret_that_nobody_else_reads(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    secret = folder_secret(folder)
    assert len(secret) == 32
    assert folder_secret(folder) == secret
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret"]
    assert folder_secret(tmp_path / "other") != secret


def test_a_secret_of_another_size_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"mine")
    with pytest.raises(OSError, match="secret"):
        folder_secret(tmp_path)
    assert (tmp_path / "secret").read_bytes() == b"mine"
