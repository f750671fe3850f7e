"""KV state on a disk: written and read by a thread of its own, and found again after a restart."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from inference.domain.cache_retention import DAY_S, CacheRetention
from inference.engine.disk_tier import DiskTier
from inference.engine.host_tier import StatePiece, checksum_of

PLAIN, DAY, IN_MEMORY = CacheRetention.UNSAID, CacheRetention.DAY, CacheRetention.IN_MEMORY
SIZE = 1000
FILE_SIZE = SIZE + 72


class Disk:
    """A folder, and the tiers that one process after another has in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.was_read = threading.Event()
        self.open: list[DiskTier] = []

    def start(self, *, max_files: int = 100, origin: str = "model") -> DiskTier:
        tier = DiskTier(
            self.folder, origin=origin, max_bytes=max_files * FILE_SIZE, on_read=self.was_read.set
        )
        self.open.append(tier)
        return tier

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.suffix in (".kv", ".day"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "cache")
    yield disk
    for tier in disk.open:
        tier.check_integrity()
        tier.close([])
        assert tier.wait_closed(10)


def piece(name: str, retention: CacheRetention = PLAIN, size: int = SIZE) -> StatePiece:
    data = np.full(size, ord(name[0]), dtype=np.uint8)
    return StatePiece(key_of(name), data, checksum_of(data), retention)


def key_of(name: str) -> bytes:
    return name.encode().ljust(32, b".")


def keep(tier: DiskTier, *pieces: StatePiece) -> None:
    for one in pieces:
        tier.write(one)
        assert tier.wait_idle(10)
    tier.check_integrity()


def fetch(tier: DiskTier, *names: str) -> dict[str, bytes | None]:
    """What is read of each."""
    tier.read([key_of(name) for name in names])
    found: list[tuple[bytes, StatePiece | None]] = []
    wait_for(lambda: found.extend(tier.take()) or len(found) == len(names))
    return {key.decode().rstrip("."): None if one is None else bytes(one.data[:1]) for key, one in found}


def wait_for(is_so: Callable[[], bool]) -> None:
    by_s = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < by_s
        time.sleep(0.005)


def test_what_was_written_is_read_and_somebody_is_told(disk: Disk) -> None:
    tier = disk.start()
    keep(tier, piece("a"), piece("b"))
    assert key_of("a") in tier
    assert fetch(tier, "a", "b", "c") == {"a": b"a", "b": b"b", "c": None}
    assert disk.was_read.is_set()
    assert tier.take() == []
    assert (tier.statistics.total_writes, tier.statistics.total_reads) == (2, 2)


def test_it_is_found_again_after_a_restart(disk: Disk) -> None:
    first = disk.start()
    keep(first, piece("a"), piece("b", DAY))
    first.close([])
    assert first.wait_closed()
    again = disk.start()
    assert again.key_secret == first.key_secret
    wait_for(lambda: key_of("b") in again)
    assert fetch(again, "a", "b") == {"a": b"a", "b": b"b"}
    assert again.statistics.num_bytes == 2 * FILE_SIZE


def test_another_model_finds_nothing(disk: Disk) -> None:
    keep(disk.start(), piece("a"))
    other = disk.start(origin="another")
    assert other.key_secret != disk.open[0].key_secret
    assert fetch(other, "a") == {"a": None}


def test_what_is_to_stay_in_memory_is_not_written(disk: Disk) -> None:
    tier = disk.start()
    keep(tier, piece("a", IN_MEMORY))
    tier.close([piece("b", IN_MEMORY)])
    assert tier.wait_closed()
    assert disk.files() == []


def test_at_the_end_what_is_kept_for_a_day_is_written(disk: Disk) -> None:
    tier = disk.start()
    tier.close([piece("a"), piece("b", DAY), piece("c", DAY)])
    assert tier.wait_closed()
    assert [path.suffix for path in disk.files()] == [".day", ".day"]
    tier.write(piece("d"))
    assert len(disk.files()) == 2


def test_what_was_not_used_for_longest_gives_way_and_what_is_kept_for_a_day_last(disk: Disk) -> None:
    tier = disk.start(max_files=4)
    keep(tier, piece("a", DAY), piece("b"), piece("c"), piece("d"))
    fetch(tier, "b")
    keep(tier, piece("e"))
    assert [name for name in "abcde" if key_of(name) in tier] == ["a", "b", "d", "e"]
    assert len(disk.files()) == 4
    assert tier.statistics.num_bytes <= 4 * FILE_SIZE


def test_a_smaller_limit_after_a_restart_holds(disk: Disk) -> None:
    keep(disk.start(), *[piece(name) for name in "abcdef"])
    smaller = disk.start(max_files=2)
    wait_for(lambda: len(disk.files()) == 2)
    wait_for(lambda: smaller.statistics.num_bytes == 2 * FILE_SIZE)


def test_what_was_not_used_for_a_day_is_gone_also_that_of_other_models(disk: Disk) -> None:
    keep(disk.start(), piece("a"), piece("b"))
    keep(disk.start(origin="another"), piece("c"))
    old, other = disk.open
    for path in disk.files():
        if path.stem != key_of("b").hex():
            os.utime(path, (time.time() - DAY_S - 10,) * 2)
    again = disk.start()
    wait_for(lambda: key_of("b") in again)
    assert [path.stem for path in disk.files()] == [key_of("b").hex()]
    assert key_of("a") not in again
    assert fetch(old, "a") == {"a": None}
    assert fetch(other, "c") == {"c": None}


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "foreign", "link", "folder"])
def test_damaged_and_foreign_files_are_dropped_and_counted(disk: Disk, damage: str) -> None:
    tier = disk.start()
    keep(tier, piece("a"), piece("b"))
    path = next(path for path in disk.files() if path.stem == key_of("a").hex())
    content = path.read_bytes()
    path.unlink()
    if damage == "link":
        path.symlink_to("/dev/zero")
    elif damage == "folder":
        path.mkdir()
    else:
        changed = {
            "bit": content[:-1] + b"x", "cut": content[:-5], "empty": b"", "foreign": b"x" * 5000,
        }[damage]  # fmt: skip
        path.write_bytes(changed)
    assert fetch(tier, "a", "b") == {"a": None, "b": b"b"}
    assert key_of("a") not in tier
    statistics = tier.statistics
    assert statistics.total_damaged + statistics.total_failures >= 1
    assert statistics.num_bytes == FILE_SIZE


def test_strange_names_in_the_folder_are_left_alone(disk: Disk) -> None:
    first = disk.start()
    keep(first, piece("a"))
    folder = disk.files()[0].parent
    for name in ("notes.txt", "zz.kv", "00.kv", f"{key_of('x').hex()}.other"):
        (folder / name).touch()
    (folder / ".left-over.tmp").touch()
    again = disk.start()
    wait_for(lambda: key_of("a") in again)
    assert again.statistics.num_files == 1
    assert (folder / "notes.txt").exists()
    assert not (folder / ".left-over.tmp").exists()


def test_a_folder_that_went_away_fails_nobody(disk: Disk) -> None:
    tier = disk.start()
    keep(tier, piece("a"))
    folder = disk.files()[0].parent
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    keep(tier, piece("b"))
    assert fetch(tier, "a", "b") == {"a": None, "b": None}
    assert tier.statistics.total_failures >= 2


def test_what_is_written_twice_is_one_file(disk: Disk) -> None:
    tier = disk.start()
    keep(tier, piece("a"), piece("a", DAY))
    assert (len(disk.files()), tier.statistics.total_writes) == (1, 1)


def test_what_takes_a_large_part_of_the_room_is_not_written(disk: Disk) -> None:
    tier = disk.start(max_files=4)
    keep(tier, piece("a", size=2 * SIZE))
    assert disk.files() == []


def test_a_folder_that_cannot_be_used_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        DiskTier(tmp_path / "file", origin="model", max_bytes=1000)


KILLED_WRITER = """
import sys
from pathlib import Path
import numpy as np
from inference.domain.cache_retention import CacheRetention
from inference.engine.disk_tier import DiskTier
from inference.engine.host_tier import StatePiece, checksum_of
tier = DiskTier(Path(sys.argv[1]), origin="model", max_bytes=1 << 30)
for index in range(100_000):
    data = np.full(200_000, index % 256, dtype=np.uint8)
    key = index.to_bytes(32, "big")
    tier.write(StatePiece(key, data, checksum_of(data), CacheRetention.DAY))
    tier.wait_idle(10)
    print(index, flush=True)
"""


def test_a_writer_that_is_killed_leaves_whole_files(disk: Disk) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(disk.folder)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer.stdout as lines:
        for _ in range(5):
            assert lines.readline()
        writer.kill()
        writer.wait()
    tier = DiskTier(disk.folder, origin="model", max_bytes=1 << 30)
    disk.open.append(tier)
    wait_for(lambda: tier.statistics.num_files >= 5)
    keys = list(tier._files)
    tier.read(keys)
    found: list[tuple[bytes, StatePiece | None]] = []
    wait_for(lambda: found.extend(tier.take()) or len(found) == len(keys))
    for key, one in found:
        assert one is not None
        assert (one.data == int.from_bytes(key, "big") % 256).all()
    assert tier.statistics.total_damaged == 0
    wait_for(lambda: not list(disk.folder.rglob("*.tmp")))
