"""The story of a backup: the journal first, then one moment of the database, then what they are checked by.

In this order nothing falls between: what a journal still holds when it is read is either in that moment of
the database as well, and is passed over when it is recovered, or it is recovered from the journal.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from skippy_site.backup.archive import BackupWriter
from skippy_site.backup.database import DatabaseMoment, database_moment, database_program, dump_chunks
from skippy_site.backup.embedded import embedded_postgres, state_locks
from skippy_site.backup.manifest import DATABASE, FORMAT, SETTINGS, Manifest
from skippy_site.backup.problem import BackupProblem, disk_problem
from skippy_site.backup.progress import Progress, size_text
from skippy_site.backup.state_files import file_chunks, kept_files, models_of, settings_text
from skippy_site.env import Environment
from skippy_site.state import StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.discovery import needs_embedded_postgres, service_urls
from skippy_site.supervisor.postgres_location import current_location
from skippy_site.supervisor.postgres_programs import postgres_programs
from skippy_site.supervisor.problems import AlreadyRunning
from skippy_site.supervisor.system_account import ACCOUNT_NAME

_OWN_NAME = re.compile(r"skippy-\d{8}-\d{6}\.tar(?P<partial>\.partial)?")
# What a killed backup left is nobody's after that; one that is being made was written to since.
_ABANDONED_S = 3600.0


async def make_backup(
    environment: Environment,
    state: StateFolder,
    console: Console,
    *,
    target: Path | None = None,
    num_kept: int | None = None,
    variables: Mapping[str, str] = os.environ,
    account_name: str = ACCOUNT_NAME,
) -> Path:
    """Write `target` (None: a file with the time in its name, in the state folder's `backups`), whether the
    service runs or not. With `num_kept` older files so named beside it go. Raises BackupProblem and
    StartProblem."""
    made_at = datetime.now(UTC)
    target = _target(state, target, made_at)
    writer = BackupWriter(target)
    try:
        if not needs_embedded_postgres(environment):
            _write(writer, environment, state, console, variables=variables, made_at=made_at)
        else:
            try:
                async with state_locks(state, console) as locks:
                    if not (current_location(state).data / "PG_VERSION").exists():
                        raise BackupProblem(f"{state.root} has no database: there is nothing to back up")
                    console.line("the service does not run: starting its Postgres for the backup")
                    async with embedded_postgres(state, console, locks, account_name=account_name):
                        _write(writer, environment, state, console, variables=variables, made_at=made_at)
            except AlreadyRunning:
                _write(writer, environment, state, console, variables=variables, made_at=made_at)
    finally:
        writer.give_up()
    console.line(f"{target} has all of it ({size_text(target.stat().st_size)}); it holds secrets: keep it so")
    if num_kept is not None:
        remove_older(target, num_kept, console)
    return target


def _write(
    writer: BackupWriter,
    environment: Environment,
    state: StateFolder,
    console: Console,
    *,
    variables: Mapping[str, str],
    made_at: datetime,
) -> None:
    for name, path in kept_files(state):
        writer.add(name, file_chunks(path))
    writer.add(SETTINGS, iter([settings_text(variables)]))
    url = service_urls(environment, state).database_url
    folder = postgres_programs(account=None, copy_to=state.run / "programs").folder
    program = database_program(folder, "pg_dump")
    with database_moment(url) as moment:
        console.line(f"dumping the database ({size_text(moment.size_bytes)} with its indexes)")
        progress = Progress(console, "dumping the database", "written, compressed")
        writer.add(DATABASE, progress.watch(dump_chunks(program, url, moment.snapshot)))
        writer.finish(_manifest(writer, environment, state, moment, made_at))


def _manifest(
    writer: BackupWriter,
    environment: Environment,
    state: StateFolder,
    moment: DatabaseMoment,
    made_at: datetime,
) -> Manifest:
    return Manifest(
        format=FORMAT,
        made_at=made_at,
        postgres_major=moment.postgres_major,
        is_embedded=needs_embedded_postgres(environment),
        migrations=moment.migrations,
        num_rows=moment.num_rows,
        models=models_of(state),
        members=dict(writer.members),
    )


def _target(state: StateFolder, target: Path | None, made_at: datetime) -> Path:
    if target is not None:
        path = target.expanduser().absolute()
        if not path.parent.is_dir():
            raise BackupProblem(f"there is no folder {path.parent}")
        return path
    folder = state.root / "backups"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise disk_problem(error, f"making {folder}") from None
    return folder / f"skippy-{made_at:%Y%m%d-%H%M%S}.tar"


def remove_older(target: Path, num_kept: int, console: Console) -> None:
    """Once the new one is there, and only files that are called as those without a name of their own are."""
    found = [(path, _OWN_NAME.fullmatch(path.name)) for path in sorted(target.parent.iterdir())]
    whole = [path for path, name in found if name is not None and not name["partial"]]
    parts = [path for path, name in found if name is not None and name["partial"]]
    abandoned = [path for path in parts if time.time() - path.stat().st_mtime > _ABANDONED_S]
    for path in [*whole[: max(0, len(whole) - num_kept)], *abandoned]:
        if path != target:
            path.unlink(missing_ok=True)
            console.line(f"{path.name} was removed")
