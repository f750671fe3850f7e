import errno

import pytest

from inference.ledger.journal import DeadJournal, JournalFile, dead_journals
from tests.ledger_parts import SmallDisk, journals


def test_lines_are_in_the_file_as_they_were_appended(tmp_path):
    journal = JournalFile(tmp_path / "new", unix_time=1.0)

    extents = [journal.append(line) for line in (b"one\n", b"two\nthree\n")]

    assert journal.path.read_bytes() == b"one\ntwo\nthree\n"
    assert [journal.read(extent) for extent in extents] == [b"one\n", b"two\nthree\n"]
    assert journal.path.stat().st_mode & 0o077 == 0


def test_a_journal_is_dead_when_its_process_has_let_go(tmp_path):
    journal = JournalFile(tmp_path, unix_time=1.0)
    assert list(dead_journals(tmp_path)) == []

    journal.close(is_done=False)
    (dead,) = dead_journals(tmp_path)

    assert DeadJournal.claim(journal.path) is None
    dead.release(is_done=True)
    assert DeadJournal.claim(journal.path) is None
    assert journals(tmp_path) == []


def test_dead_journals_come_oldest_first(tmp_path):
    for unix_time in (30.0, 1_700_000_000.0, 4.0):
        journal = JournalFile(tmp_path, unix_time=unix_time)
        journal.append(b"%d\n" % unix_time)
        journal.close(is_done=False)

    read = [b"".join(journal.lines()) for journal in dead_journals(tmp_path)]

    assert read == [b"4\n", b"30\n", b"1700000000\n"]


def test_a_full_disk_leaves_whole_lines(tmp_path):
    disk = SmallDisk(room_bytes=6)
    journal = JournalFile(tmp_path, unix_time=1.0, disk=disk)
    journal.append(b"one\n")

    with pytest.raises(OSError, match="No space") as problem:
        journal.append(b"two\n")
    assert problem.value.errno == errno.ENOSPC
    assert journal.path.read_bytes() == b"one\n"

    disk.room_bytes = 100
    extent = journal.append(b"three\n")
    assert journal.path.read_bytes() == b"one\nthree\n"
    assert journal.read(extent) == b"three\n"
