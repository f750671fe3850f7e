from __future__ import annotations

import os
from pathlib import Path

from skippy_site.supervisor.log_files import LogLimits, last_line, rotate

LIMITS = LogLimits(max_bytes=100, num_kept=2)


def test_a_short_log_stays(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("x" * 100)

    assert not rotate(log, LIMITS)
    assert not rotate(tmp_path / "missing.log", LIMITS)


def test_a_long_log_is_kept_in_bounded_copies_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    writer = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in range(5):
        os.write(writer, f"{number}".encode() * 300)
        assert rotate(log, LIMITS)
    os.write(writer, b"after")
    os.close(writer)

    assert log.read_bytes() == b"after"
    assert (tmp_path / "a.log.1").read_bytes() == b"4" * 100
    assert (tmp_path / "a.log.2").read_bytes() == b"3" * 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "a.log.1", "a.log.2"]
    assert (tmp_path / "a.log.1").stat().st_mode & 0o777 == 0o600


def test_the_last_word_is_the_last_line_with_text(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 20_000 + b"\nthe reason\xff\n\n  \n")

    assert last_line(log) == "the reason�"
    assert last_line(tmp_path / "missing.log") == ""
