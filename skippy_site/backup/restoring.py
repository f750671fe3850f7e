"""The story of a restore: all is checked, then the database is filled, then the files are put in place.

Whatever fails before the last step leaves the state folder as it was, so that it can be tried again.
"""

from __future__ import annotations

from pathlib import Path

from skippy_site.backup.archive import BackupReader
from skippy_site.backup.database import check_is_empty, check_rows, database_program, restore_dump
from skippy_site.backup.embedded import embedded_postgres, remove_cluster, state_locks
from skippy_site.backup.manifest import DATABASE, JOURNAL_PREFIX, STATE_PREFIX, Manifest
from skippy_site.backup.problem import BackupProblem
from skippy_site.backup.progress import Progress, size_text
from skippy_site.backup.state_files import check_is_unused, put_back
from skippy_site.env import Environment
from skippy_site.state import CHECKOUT, StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.discovery import needs_embedded_postgres
from skippy_site.supervisor.postgres import EmbeddedPostgres
from skippy_site.supervisor.postgres_location import current_location
from skippy_site.supervisor.postgres_programs import postgres_programs
from skippy_site.supervisor.remains import StateLocks
from skippy_site.supervisor.system_account import ACCOUNT_NAME

_OWN_APPS = ("accounts", "hooks", "inference", "skippy_site")


async def restore_backup(
    environment: Environment,
    state: StateFolder,
    console: Console,
    *,
    source: Path,
    account_name: str = ACCOUNT_NAME,
) -> None:
    """Make an unused state folder (and an empty database, where it is not the embedded one) what the backup
    was made of. The service must not run. Raises BackupProblem, StartProblem."""
    reader = open_backup(source, console)
    try:
        async with state_locks(state, console) as locks:
            check_is_unused(state)
            if not needs_embedded_postgres(environment):
                _fill(reader, environment.database_url, state, console)
                _put_files(reader, state)
            else:
                await _restore_embedded(reader, state, console, locks, account_name=account_name)
    finally:
        reader.close()
    console.line("all of it is there, row by row; `make serve` with the same SKIPPY_HOME goes on from it")
    _tell_models(reader.manifest, state, console)


def open_backup(source: Path, console: Console) -> BackupReader:
    """Checked from its first byte to its last, and for this version. Raises BackupProblem."""
    console.line(f"checking {source}")
    reader = BackupReader(source)
    unknown = unknown_migrations(reader.manifest)
    if unknown:
        reader.close()
        raise BackupProblem(
            f"{source} was made by a newer version (it has {unknown[0]}): restore it with that one"
        )
    manifest = reader.manifest
    console.line(
        f"it is whole: made {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC, PostgreSQL {manifest.postgres_major}, "
        f"{sum(manifest.num_rows.values())} rows in {len(manifest.num_rows)} tables"
    )
    return reader


def unknown_migrations(manifest: Manifest, checkout: Path = CHECKOUT) -> list[str]:
    """Of our own apps: older ones are brought up to date at the next start, newer ones cannot be."""
    return [
        one
        for one in manifest.migrations
        for app, _, name in [one.partition(".")]
        if app in _OWN_APPS and not (checkout / app / "migrations" / f"{name}.py").is_file()
    ]


async def _restore_embedded(
    reader: BackupReader, state: StateFolder, console: Console, locks: StateLocks, *, account_name: str
) -> None:
    location = current_location(state)
    if location.data.exists():
        raise BackupProblem(
            f"{location.data} has a database already: restore into another SKIPPY_HOME, or move it away"
        )
    made: EmbeddedPostgres | None = None
    is_filled = False
    try:
        async with embedded_postgres(state, console, locks, account_name=account_name) as postgres:
            made = postgres
            _fill(reader, postgres.location.url, state, console)
        _put_files(reader, state)
        is_filled = True
    finally:
        if made is not None and not is_filled:
            remove_cluster(made)


def _fill(reader: BackupReader, url: str, state: StateFolder, console: Console) -> None:
    folder = postgres_programs(account=None, copy_to=state.run / "programs").folder
    program = database_program(folder, "pg_restore")
    check_is_empty(url)
    note = reader.manifest.members[DATABASE]
    console.line("filling the database")
    progress = Progress(console, "filling the database", f"of {size_text(note.num_bytes)} read")
    restore_dump(program, url, progress.watch(reader.chunks(DATABASE)))
    check_rows(url, reader.manifest.num_rows)


def _put_files(reader: BackupReader, state: StateFolder) -> None:
    for name in reader.manifest.members:
        if name.startswith((STATE_PREFIX, JOURNAL_PREFIX)):
            put_back(state, name, reader.chunks(name))


def _tell_models(manifest: Manifest, state: StateFolder, console: Console) -> None:
    """They are not in a backup."""
    missing = [one for one in manifest.models if not (state.models / one.name).is_file()]
    for one in missing:
        console.line(
            f"not here: models/{one.name} ({size_text(one.num_bytes)}); copy it, or it is fetched where its "
            "source is on a hub"
        )
