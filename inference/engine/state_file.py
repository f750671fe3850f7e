"""A piece of KV state as a file that is believed only if this service wrote it, and wrote it whole.

llama.cpp reads states without doubt: bytes that somebody else made could end the process, or worse. So
a file carries a keyed digest over everything in it, and the key is a secret of the folder.

    magic (8 bytes) | digest (32) | key (32) | state

Neither tokens nor text nor names are in it: the key is a digest itself (piece_keys.py), and what the state
belongs to (model, build, form of the cells) is part of the secret that both digests are made with.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from inference.engine.host_tier import StateArray
from inference.engine.piece_keys import KEY_BYTES

MAGIC = b"SKPYKV01"
_HEAD_BYTES = len(MAGIC) + 2 * KEY_BYTES
_MODE = 0o600
FOLDER_MODE = 0o700


class DamagedState(Exception):
    """A file that is not what this service wrote there."""


def state_write(path: Path, *, key: bytes, data: StateArray, secret: bytes) -> int:
    """Write a file beside `path` and put it there in one act, so that a kill at any moment leaves a whole
    one or none. Returns its size. Raises OSError, and then nothing is left behind."""
    beside = path.with_name(f".{secrets.token_hex(8)}.tmp")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + _digest(secret, key, data) + key)
            file.write(data.data)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return _HEAD_BYTES + len(data)


def state_read(path: Path, *, key: bytes, secret: bytes, max_bytes: int) -> StateArray:
    """The state under a key. Raises DamagedState, or OSError where there is no file to read."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not _HEAD_BYTES < found.st_size <= max_bytes:
            raise DamagedState
        head = file.read(_HEAD_BYTES)
        data: StateArray = np.empty(found.st_size - _HEAD_BYTES, dtype=np.uint8)
        if file.readinto(data.data) != len(data):
            raise DamagedState
    expected = MAGIC + _digest(secret, key, data) + key
    if not secrets.compare_digest(head, expected):
        raise DamagedState
    return data


def _digest(secret: bytes, key: bytes, data: StateArray) -> bytes:
    digest = blake2b(key, key=secret, digest_size=KEY_BYTES)
    digest.update(data.data)
    return digest.digest()


def folder_secret(folder: Path) -> bytes:
    """The secret of a folder, made where there is none; the folder, too. Raises OSError."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    folder.chmod(FOLDER_MODE)
    path = folder / "secret"
    if not path.exists():
        beside = folder / f".{secrets.token_hex(8)}.tmp"
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        # Of several processes that make one, the first one wins, and its is whole.
        with suppress(FileExistsError):
            path.hardlink_to(beside)
        beside.unlink()
    secret = path.read_bytes()
    if len(secret) != KEY_BYTES:
        raise OSError(errno.EINVAL, "its file 'secret' is not one of ours")
    return secret
