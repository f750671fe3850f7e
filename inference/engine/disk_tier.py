"""KV state on a disk: what host memory has no room for, and what is to outlive a restart.

    host tier ──leaves──▶ queue ──▶ thread ──▶ file          (no request ever waits for a write)
    engine ──asks──▶ thread ──▶ file, checked ──▶ engine, at its next step

A disk may take seconds, so the engine thread never touches it. What the thread cannot keep up with is not
written; what cannot be read, or is not what was written, is not there.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from inference.domain.cache_retention import DAY_S, CacheRetention
from inference.domain.cold_prefixes import DiskTierStatistics
from inference.engine.config import EngineConfig
from inference.engine.host_tier import StatePiece, checksum_of
from inference.engine.model_runner import ModelRunner
from inference.engine.piece_keys import KEY_BYTES
from inference.engine.state_file import DamagedState, folder_secret, state_read, state_write

logger = logging.getLogger(__name__)

# Pieces that wait to be written are memory beyond the host tier's.
MAX_QUEUED_BYTES = 256 << 20
# How long the end of the process waits for what is to be kept for a day.
CLOSE_PATIENCE_S = 10.0
# How often it looks for what is too old.
LOOK_INTERVAL_S = 600.0
_SUFFIXES = {".day": CacheRetention.DAY, ".kv": CacheRetention.UNSAID}


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    num_bytes: int
    used_at: float


class DiskTier:
    """Files under `folder`, in a folder of their own for each `origin` (all that a state depends on but
    its tokens); at most `max_bytes` in that, and none that was not used for a day.

    All methods are for one thread (the engine's), but `statistics`. `on_read` is called on the tier's
    own thread when `take` has something. A folder that cannot be used raises OSError.
    """

    def __init__(
        self,
        folder: Path,
        *,
        origin: str,
        max_bytes: int,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        self._secret = blake2b(origin.encode(), key=folder_secret(folder), digest_size=KEY_BYTES).digest()
        self._root = folder
        self._folder = folder / blake2b(self._secret, digest_size=16).hexdigest()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._max_bytes = max_bytes
        self._on_read = on_read
        self._changed = threading.Condition()
        # All below belongs to whoever holds the condition's lock. The file not used for longest first.
        self._files: dict[bytes, _File] = {}
        self._num_bytes = 0
        self._writes: deque[StatePiece] = deque()
        self._queued: set[bytes] = set()
        self._num_queued_bytes = 0
        self._reads: deque[bytes] = deque()
        self._done: list[tuple[bytes, StatePiece | None]] = []
        self._close_by_s: float | None = None
        self._counts = dict.fromkeys(("writes", "reads", "damaged", "failures", "dropped"), 0)
        self._thread = threading.Thread(target=self._main, name="skippy-disk-cache", daemon=True)
        self._thread.start()
        atexit.register(self._finish)

    @property
    def key_secret(self) -> bytes:
        """What the keys of pieces are to be made with, so that they are the same after a restart."""
        return blake2b(b"keys", key=self._secret, digest_size=KEY_BYTES).digest()

    @property
    def statistics(self) -> DiskTierStatistics:
        counts = self._counts
        return DiskTierStatistics(
            num_files=len(self._files),
            num_bytes=self._num_bytes,
            max_bytes=self._max_bytes,
            total_writes=counts["writes"],
            total_reads=counts["reads"],
            total_damaged=counts["damaged"],
            total_failures=counts["failures"],
            total_dropped=counts["dropped"],
        )

    # -- for the engine -------------------------------------------------------------------------

    def __contains__(self, key: bytes) -> bool:
        return key in self._files

    def write(self, piece: StatePiece) -> None:
        """Keep a piece, if the thread comes to it; not where that was not wanted."""
        if not piece.retention.may_go_to_disk or len(piece.data) > self._max_bytes // 4:
            return
        with self._changed:
            if piece.key in self._files or piece.key in self._queued or self._close_by_s is not None:
                return
            if self._num_queued_bytes + len(piece.data) > MAX_QUEUED_BYTES:
                self._counts["dropped"] += 1
                return
            self._writes.append(piece)
            self._queued.add(piece.key)
            self._num_queued_bytes += len(piece.data)
            self._changed.notify()

    def read(self, keys: list[bytes]) -> None:
        """Fetch these, in order; `take` has them later."""
        with self._changed:
            self._reads.extend(keys)
            self._changed.notify()

    def take(self) -> list[tuple[bytes, StatePiece | None]]:
        """What was read since the last call; None for what was not there or was damaged."""
        if not self._done:
            return []
        with self._changed:
            done, self._done = self._done, []
            return done

    def close(self, pieces: list[StatePiece]) -> None:
        """The engine ends: of `pieces`, write those that are to be kept for a day. Returns at once; the
        process waits for it at its end."""
        for piece in pieces:
            if piece.retention is CacheRetention.DAY:
                self.write(piece)
        with self._changed:
            self._close_by_s = time.monotonic() + CLOSE_PATIENCE_S
            self._reads.clear()
            self._changed.notify()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to write or to read."""
        by_s = time.monotonic() + timeout_s
        while self._queued or self._reads:
            if time.monotonic() > by_s:
                return False
            time.sleep(0.005)
        return True

    def wait_closed(self, timeout_s: float = CLOSE_PATIENCE_S) -> bool:
        """Wait for the thread's end after `close`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- the thread -----------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            self._look_around()
            while (job := self._next_job()) is not None:
                self._forget_old()
                if isinstance(job, StatePiece):
                    self._write(job)
                elif job:
                    self._read(job)
        except Exception:
            logger.exception("The disk cache has ended by a fault")
        finally:
            atexit.unregister(self._finish)

    def _next_job(self) -> StatePiece | bytes | None:
        """Somebody waits for reads, so they go first. An empty key: nothing, for a while."""
        with self._changed:
            while True:
                if self._close_by_s is not None and time.monotonic() > self._close_by_s:
                    return None
                if self._reads:
                    return self._reads.popleft()
                if self._writes:
                    return self._writes.popleft()
                if self._close_by_s is not None:
                    return None
                if not self._changed.wait(LOOK_INTERVAL_S):
                    return b""

    def _look_around(self) -> None:
        """Learn which files there are; remove what nobody will ask for."""
        now_s = time.time()
        for path in self._root.glob("*/*"):
            try:
                found = path.lstat()
                if now_s - found.st_mtime > DAY_S or (path.suffix == ".tmp" and path.parent == self._folder):
                    path.unlink()
            except OSError:
                continue
        known = []
        for path in self._folder.iterdir():
            try:
                key = bytes.fromhex(path.stem)
                found = path.lstat()
            except (OSError, ValueError):
                continue
            if len(key) == KEY_BYTES and path.suffix in _SUFFIXES:
                known.append((key, _File(path, found.st_size, found.st_mtime)))
        with self._changed:
            for key, file in sorted(known, key=lambda one: one[1].used_at):
                self._insert(key, file)
        self._make_room(0)

    def _write(self, piece: StatePiece) -> None:
        suffix = ".day" if piece.retention is CacheRetention.DAY else ".kv"
        path = self._folder / f"{piece.key.hex()}{suffix}"
        try:
            self._make_room(len(piece.data))
            num_bytes = state_write(path, key=piece.key, data=piece.data, secret=self._secret)
        except OSError as error:
            self._counts["failures"] += 1
            logger.warning("A piece of KV state could not be written to the disk: %s", error.strerror)
            num_bytes = 0
        with self._changed:
            self._queued.discard(piece.key)
            self._num_queued_bytes -= len(piece.data)
            if num_bytes:
                self._counts["writes"] += 1
                self._insert(piece.key, _File(path, num_bytes, time.time()))

    def _read(self, key: bytes) -> None:
        file = self._files.get(key)
        piece: StatePiece | None = None
        if file is not None:
            try:
                data = state_read(file.path, key=key, secret=self._secret, max_bytes=self._max_bytes)
                piece = StatePiece(key, data, checksum_of(data), _SUFFIXES[file.path.suffix])
                os.utime(file.path)
            except DamagedState:
                self._counts["damaged"] += 1
                self._remove(key)
            except OSError:
                self._counts["failures"] += 1
                self._remove(key)
        with self._changed:
            if piece is not None and file is not None and key in self._files:
                self._counts["reads"] += 1
                self._insert(key, replace(file, used_at=time.time()))
            self._done.append((key, piece))
        self._on_read()

    def _forget_old(self) -> None:
        """Nothing is kept for longer than a day without being used."""
        while self._files:
            key, file = next(iter(self._files.items()))
            if time.time() - file.used_at <= DAY_S:
                return
            self._remove(key)

    def _make_room(self, num_bytes: int) -> None:
        while self._num_bytes + num_bytes > self._max_bytes and self._files:
            plain = next((key for key, file in self._files.items() if file.path.suffix != ".day"), None)
            self._remove(next(iter(self._files)) if plain is None else plain)

    def _insert(self, key: bytes, file: _File) -> None:
        before = self._files.pop(key, None)
        self._num_bytes += file.num_bytes - (before.num_bytes if before else 0)
        self._files[key] = file

    def _remove(self, key: bytes) -> None:
        with self._changed:
            file = self._files.pop(key, None)
            if file is None:
                return
            self._num_bytes -= file.num_bytes
        try:
            file.path.unlink(missing_ok=True)
        except OSError:
            self._counts["failures"] += 1

    def _finish(self) -> None:
        """The process ends."""
        self.close([])
        self.wait_closed()

    def check_integrity(self) -> None:
        """Raise AssertionError unless sizes and limits agree."""
        with self._changed:
            num_bytes = sum([file.num_bytes for file in self._files.values()])
            if num_bytes != self._num_bytes:
                raise AssertionError(f"{self!r}: {num_bytes} bytes in files")

    def __repr__(self) -> str:
        return f"<DiskTier {len(self._files)} files, {self._num_bytes} of {self._max_bytes} bytes>"


def disk_tier_open(
    runner: ModelRunner, config: EngineConfig, *, on_read: Callable[[], None]
) -> DiskTier | None:
    """The tier that the configuration asks for; None where it asks for none, where states do not come in
    pieces, or where its folder cannot be used (which is said once)."""
    is_wanted = bool(config.disk_cache_dir) and config.disk_cache_bytes > 0 and config.host_cache_bytes > 0
    if not is_wanted or not config.has_prefix_cache or not runner.num_piece_tokens:
        return None
    try:
        return DiskTier(
            Path(config.disk_cache_dir),
            origin=f"{runner.state_origin}, {runner.num_piece_tokens} tokens",
            max_bytes=config.disk_cache_bytes,
            on_read=on_read,
        )
    except OSError as error:
        logger.warning("The folder of the disk cache cannot be used: %s", error.strerror)
        return None
