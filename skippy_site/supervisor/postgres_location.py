"""Answers where the embedded Postgres of a state folder lives, without starting or importing anything.

Everything lies in one folder of the database's own user:

    <SKIPPY_HOME>/postgres/data      the cluster
    <SKIPPY_HOME>/postgres/socket    its socket (or a short folder under /tmp, see sockets.py)
    <SKIPPY_HOME>/postgres/programs  a copy of the binaries, where that user cannot reach the originals

A server that root starts runs as a system user, who cannot reach a state folder below a folder that
is closed to others (a checkout in /root). Ancestors are never opened for it: then `postgres` lies in
/var/lib/skippy-<hash of the state folder's path>/ and <SKIPPY_HOME>/postgres.location names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from skippy_site.state import StateFolder
from skippy_site.supervisor.sockets import home_hash, socket_folder

PORT = 5432  # names the socket file only: nothing listens on TCP
ROLE = "skippy"
DATABASE = "skippy"


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    """The folders of one cluster. `home` is the state folder that it belongs to."""

    home: Path
    base: Path

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def programs(self) -> Path:
        return self.base / "programs"

    @property
    def socket_folder(self) -> Path:
        return socket_folder(self.base / "socket", home=self.home, purpose="db")

    @property
    def socket(self) -> Path:
        return self.socket_folder / f".s.PGSQL.{PORT}"

    @property
    def url(self) -> str:
        """A libpq URI. The folder is percent-encoded: a space in it would break the parser; the port
        is named because PGPORT in somebody's environment would move the socket's name otherwise."""
        folder = quote(str(self.socket_folder), safe="")
        return f"postgresql://{ROLE}@/{DATABASE}?host={folder}&port={PORT}"


def location_file(state: StateFolder) -> Path:
    """Names the folder of a cluster that could not live in the state folder."""
    return state.root / "postgres.location"


def outside_base(state: StateFolder) -> Path:
    """Where the cluster goes if its user cannot reach the state folder."""
    return Path("/var/lib") / f"skippy-{home_hash(state.root)}"


def current_location(state: StateFolder) -> PostgresLocation:
    """Where the cluster is, or will be if nothing stands in the way. Reads one small file at most."""
    try:
        recorded = location_file(state).read_text(encoding="utf-8").strip()
    except OSError:
        recorded = ""
    return PostgresLocation(home=state.root, base=Path(recorded) if recorded else state.postgres)
