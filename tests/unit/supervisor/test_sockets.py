from __future__ import annotations

import os
from pathlib import Path

import pytest

from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.sockets import MAX_FOLDER_BYTES, make_private_folder, socket_folder

ME = {"uid": os.geteuid(), "gid": os.getegid()}


def test_a_folder_is_used_as_long_as_a_socket_fits() -> None:
    fits = Path("/" + "x" * (MAX_FOLDER_BYTES - 1))

    assert socket_folder(fits, home=Path("/h"), purpose="db") == fits
    assert len(f"{fits}/.s.PGSQL.5432.lock") <= 107


@pytest.mark.parametrize("name", ["x" * MAX_FOLDER_BYTES, "ü" * 50, "a,b"])
def test_else_a_short_folder_stands_for_the_state_folder(name: str) -> None:
    first = socket_folder(Path("/", name), home=Path("/h"), purpose="db")

    assert first.parent == Path("/tmp")
    assert first == socket_folder(Path("/", name), home=Path("/h"), purpose="db")
    assert first != socket_folder(Path("/", name), home=Path("/other"), purpose="db")
    assert first != socket_folder(Path("/", name), home=Path("/h"), purpose="mq")


def test_a_private_folder_is_made_private_and_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "private"

    make_private_folder(folder, **ME)
    folder.chmod(0o755)
    make_private_folder(folder, **ME)

    assert folder.stat().st_mode & 0o777 == 0o700


def test_neither_a_link_nor_a_file_passes_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "file").touch()

    for name in ("link", "file"):
        with pytest.raises(ServiceProblem, match="not a folder of ours"):
            make_private_folder(tmp_path / name, **ME)
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o755


def test_a_missing_parent_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ServiceProblem, match="cannot be made"):
        make_private_folder(tmp_path / "no" / "folder", **ME)
