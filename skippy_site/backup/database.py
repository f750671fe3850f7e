"""The database's part of a backup: one moment of it, by Postgres' own pg_dump, and back by pg_restore.

Both read or write while others use the server. pg_dump is told a snapshot that a transaction of ours holds
open, so that the numbers which the manifest gives are those of the dump, to the row.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from skippy_site.backup.archive import CHUNK_BYTES
from skippy_site.backup.problem import BackupProblem
from skippy_site.supervisor.discovery import database_problem

_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname
"""
_MIGRATIONS = "django_migrations"


@dataclass(frozen=True, slots=True)
class DatabaseMoment:
    """One moment of a database: `snapshot` is its name for pg_dump, `size_bytes` what it has on disk."""

    snapshot: str
    postgres_major: int
    size_bytes: int
    migrations: tuple[str, ...]
    num_rows: dict[str, int]


@contextmanager
def database_moment(url: str) -> Iterator[DatabaseMoment]:
    """Hold one moment open. Raises BackupProblem where there is no database of ours."""
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            connection.commit()
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            (snapshot,) = _one(connection, "SELECT pg_export_snapshot()")
            num_rows = count_rows(connection)
            if _MIGRATIONS not in num_rows:
                raise BackupProblem("the database has none of our tables: start the service once")
            found = connection.execute(
                "SELECT app, name FROM django_migrations ORDER BY app, name"
            ).fetchall()
            (size_bytes,) = _one(connection, "SELECT pg_database_size(current_database())")
            yield DatabaseMoment(
                snapshot=snapshot,
                postgres_major=connection.info.server_version // 10_000,
                size_bytes=size_bytes,
                migrations=tuple([f"{app}.{name}" for app, name in found]),
                num_rows=num_rows,
            )
    except psycopg.Error as error:
        raise BackupProblem(database_problem(error)) from None


def check_is_empty(url: str) -> None:
    """Raises BackupProblem where the database has tables."""
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            if connection.execute(_TABLES).fetchone() is not None:
                raise BackupProblem("the database that it would be restored into is not empty")
    except psycopg.Error as error:
        raise BackupProblem(database_problem(error)) from None


def check_rows(url: str, expected: dict[str, int]) -> None:
    """Whether all that was dumped is there, and let Postgres count it for its plans. Raises BackupProblem."""
    try:
        with psycopg.connect(url, connect_timeout=10, autocommit=True) as connection:
            connection.execute("ANALYZE")
            found = count_rows(connection)
    except psycopg.Error as error:
        raise BackupProblem(database_problem(error)) from None
    for table, num_rows in expected.items():
        if found.get(table) != num_rows:
            raise BackupProblem(f"{table} has {found.get(table)} rows after the restore, and had {num_rows}")


def count_rows(connection: psycopg.Connection[Any]) -> dict[str, int]:
    tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
    statement = sql.SQL("SELECT count(*) FROM {}")
    return {name: _one(connection, statement.format(sql.Identifier(name)))[0] for name in tables}


def dump_chunks(program: str, url: str, snapshot: str) -> Iterator[bytes]:
    """What pg_dump writes of that moment, in its custom form. Raises BackupProblem."""
    arguments = [
        "--format=custom",
        "--no-owner",
        "--no-privileges",
        "--no-password",
        f"--snapshot={snapshot}",
    ]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=_libpq(url),
        )
        try:
            assert process.stdout is not None
            while chunk := process.stdout.read(CHUNK_BYTES):
                yield chunk
            if process.wait():
                raise BackupProblem(f"pg_dump failed: {_last_line(said)}")
        finally:
            _end(process)


def restore_dump(program: str, url: str, chunks: Iterator[bytes]) -> None:
    """All of it or nothing, in one transaction. Raises BackupProblem."""
    name = conninfo_to_dict(url).get("dbname", "")
    arguments = ["--no-owner", "--no-privileges", "--no-password", "--exit-on-error", "--single-transaction"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [program, *arguments, f"--dbname={name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=_libpq(url),
        )
        try:
            assert process.stdin is not None
            try:
                for chunk in chunks:
                    process.stdin.write(chunk)
                process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended, and says why
            if process.wait():
                raise BackupProblem(f"pg_restore failed, and nothing of it was kept: {_last_line(said)}")
        finally:
            _end(process)


def database_program(folder: Path, name: str) -> str:
    program = folder / name
    if not os.access(program, os.X_OK):
        raise BackupProblem(
            f"{program} is missing: SKIPPY_PG_BIN can name another folder of Postgres' programs"
        )
    return str(program)


def _libpq(url: str) -> dict[str, str]:
    """The address in the environment: a password among arguments could be read by everybody."""
    variables = {
        option.keyword.decode(): option.envvar.decode()
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.envvar
    }
    given = {variables[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in variables}
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **given}


def _one(connection: psycopg.Connection[Any], statement: Any) -> tuple[Any, ...]:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return tuple(row)


def _last_line(said: IO[bytes]) -> str:
    """libpq and the programs name servers, tables and versions; never values or passwords."""
    said.seek(0)
    lines = [
        line.strip() for line in said.read()[-8192:].decode("utf-8", "replace").splitlines() if line.strip()
    ]
    errors = [line for line in lines if "error:" in line]
    return (errors or lines or ["it said nothing"])[0][:500]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
