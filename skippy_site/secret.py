"""Django's secret key: made once, kept in the state folder, readable by the owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def secret_key(file: Path) -> str:
    """The key in `file`, made on first use with mode 0600.

    Two processes that start at once end with the same key: it is written to a file of its own and
    then linked into place, which only one of them can do.
    """
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        pass
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_urlsafe(64) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
    return file.read_text().strip()
