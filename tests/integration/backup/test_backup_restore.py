"""A backup of a database in use, a wipe, a restore: the same rows; and what can go wrong on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from skippy_site.backup.archive import BackupReader
from skippy_site.backup.database import count_rows
from skippy_site.backup.embedded import embedded_postgres, state_locks
from skippy_site.state import CHECKOUT, StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.postgres_location import current_location

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]

ACCOUNT = "nobody"
RECORDS = """
INSERT INTO inference_generationrecord (id, created_at, finished_at, request_id, user_id, username, key_id,
  key_name, endpoint, model, is_stream, priority, session, was_session_ignored, end_user, metadata,
  max_tokens, num_input_tokens, num_cached_tokens, num_output_tokens, num_reasoning_tokens,
  num_injected_tokens, total_s, outcome, status, finish_reason, rejection_reason, error_code, hook_decisions,
  team_name)
SELECT gen_random_uuid(), now() - n * interval '1 hour', now(), 'req-' || n, 1, 'ü', 1, 'k', '/v1/x', 'm',
  true, 'normal', '', false, '', '{"a": "é"}', 9, n, 0, 2 * n, 0, 0, 0.5, 'completed', 200, 'stop', '',
  '', '[]', ''
FROM generate_series(1, 2000) AS n
"""
ASK = (
    "import sys; from skippy_site.backup.commands import run; "
    f"sys.exit(run(sys.argv[1:], account_name={ACCOUNT!r}))"
)


def state_at(path: Path) -> StateFolder:
    state = StateFolder(path)
    state.make()
    return state


@pytest.fixture
def folder() -> Iterator[Path]:
    """Under /tmp: as root another user runs Postgres, who has to come through."""
    path = Path(tempfile.mkdtemp(prefix="skippy-it-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def state(folder: Path) -> StateFolder:
    return state_at(folder / "home")


@asynccontextmanager
async def running(state: StateFolder) -> AsyncIterator[str]:
    """Its Postgres, with the state folder held as a service holds it; the address."""
    console = Console()
    async with (
        state_locks(state, console) as locks,
        embedded_postgres(state, console, locks, account_name=ACCOUNT) as postgres,
    ):
        yield postgres.location.url


def environment(state: StateFolder, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "SKIPPY_HOME": str(state.root), **more}


def manage(state: StateFolder, *arguments: str, **more: str) -> Any:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=CHECKOUT,
        env=environment(state, **more),
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return json.loads(done.stdout)


def ask(state: StateFolder, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`manage.py backup …`, with a user for Postgres that every system has."""
    return subprocess.run(
        [sys.executable, "-c", ASK, *arguments],
        cwd=CHECKOUT,
        env=environment(state, **more),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def contents(url: str) -> dict[str, tuple[int, str]]:
    """How many rows each table has, and a digest of all of them."""
    with psycopg.connect(url) as connection:
        found: dict[str, tuple[int, str]] = {}
        for name, num_rows in count_rows(connection).items():
            statement = sql.SQL(
                "SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} AS t"
            )
            row = connection.execute(statement.format(sql.Identifier(name))).fetchone()
            assert row is not None
            found[name] = (num_rows, row[0])
        return found


async def fill(state: StateFolder, url: str) -> None:
    """Migrations, an administrator with a key, records with the sums that triggers keep."""
    manage(state, "first_run", "--migrate", "--json", DATABASE_URL=url)
    with psycopg.connect(url) as connection:
        connection.execute(RECORDS)
    (state.journal / "00000000000001-1-ab.journal").write_text('{"kind": "open"}\n')


async def test_backed_up_while_in_use_wiped_and_restored_it_is_the_same(
    state: StateFolder, folder: Path
) -> None:
    target = folder / "b.tar"
    async with running(state) as url:
        await fill(state, url)
        before = contents(url)
        with psycopg.connect(url) as writing:
            # What is not committed is not in it, and keeps nobody waiting.
            writing.execute(RECORDS)
            done = ask(state, "backup", str(target))
            assert done.returncode == 0, done.stderr
            writing.rollback()
    assert before["inference_generationrecord"][0] == 2000
    assert before["accounts_apikey"][0] == 1 and before["inference_usagepending"][0] == 2000
    assert target.stat().st_mode & 0o777 == 0o600
    secret = state.secret_key_file.read_text()
    assert secret.strip() not in done.stdout + done.stderr

    again = ask(state, "backup", "--keep=1")  # nothing runs now
    assert again.returncode == 0, again.stderr
    (kept,) = (state.root / "backups").iterdir()
    with_both = [BackupReader(path) for path in (target, kept)]
    first, second = [reader.manifest for reader in with_both]
    assert first.num_rows == second.num_rows and first.migrations == second.migrations
    for reader in with_both:
        reader.close()

    other = state_at(folder / "other home")
    assert ask(other, "restore", str(target), "--check").returncode == 0
    assert not other.secret_key_file.exists()
    done = ask(other, "restore", str(target))
    assert done.returncode == 0, done.stderr
    assert other.secret_key_file.read_text() == secret
    assert [path.name for path in other.journal.iterdir()] == ["00000000000001-1-ab.journal"]
    async with running(other) as url:
        assert contents(url) == before
        # Sequences go on behind what is there, and another start changes nothing.
        assert manage(other, "first_run", "--migrate", "--json", DATABASE_URL=url)["administrator"] is None
        made = manage(other, "api_key_create", "--user", "ann", "--name", "k", "--json", DATABASE_URL=url)
        assert made["key"].startswith("sk-skippy-")
    refused = ask(other, "restore", str(target))
    assert refused.returncode == 1 and "another SKIPPY_HOME" in refused.stderr


async def test_into_a_database_of_ones_own(state: StateFolder, folder: Path) -> None:
    """Two databases of one server, as an operator's own Postgres has them; the address holds a password."""
    target = folder / "b.tar"
    async with running(state) as url:
        await fill(state, url)
        secret_url = url.replace("postgresql://skippy@", "postgresql://skippy:pass-word@")
        done = ask(state, "backup", str(target), DATABASE_URL=secret_url)
        assert done.returncode == 0, done.stderr
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE other")
        other_url = secret_url.replace("/skippy?", "/other?")
        other = state_at(folder / "other")
        done = ask(other, "restore", str(target), DATABASE_URL=other_url)
        assert done.returncode == 0, done.stderr
        assert contents(other_url) == contents(url)
        assert not current_location(other).data.exists()
        third = state_at(folder / "third")
        refused = ask(third, "restore", str(target), DATABASE_URL=other_url)
        assert refused.returncode == 1 and "not empty" in refused.stderr
        assert not third.secret_key_file.exists()
    assert "pass-word" not in done.stdout + done.stderr + refused.stderr


async def test_what_fails_leaves_the_folder_as_it_was_and_may_be_tried_again(
    state: StateFolder, folder: Path
) -> None:
    target = folder / "b.tar"
    async with running(state) as url:
        await fill(state, url)
        assert ask(state, "backup", str(target)).returncode == 0
        with_a_missing_row = rewritten(target, folder / "rows.tar", inference_generationrecord=1999)
        newer = rewritten(target, folder / "newer.tar", migrations=("inference.9999_later",))
        running_here = ask(state, "restore", str(target))
        assert running_here.returncode == 1 and "already runs" in running_here.stderr
    other = state_at(folder / "other")
    for path, problem in ((with_a_missing_row, "2000 rows after the restore"), (newer, "newer version")):
        done = ask(other, "restore", str(path))
        assert done.returncode == 1 and problem in done.stderr
        assert not current_location(other).data.exists() and not other.secret_key_file.exists()
        assert not list(other.journal.iterdir())
    assert ask(other, "restore", str(target)).returncode == 0


def test_where_there_is_nothing_to_back_up(state: StateFolder, folder: Path) -> None:
    for arguments, problem in (
        (("backup",), "nothing to back up"),
        (("backup", "/nowhere/b.tar"), "there is no folder"),
        (("restore", str(folder / "gone.tar")), "no backup that can be read"),
    ):
        done = ask(state, *arguments)
        assert done.returncode == 1 and problem in done.stderr and "Traceback" not in done.stderr
    done = ask(state, "backup", DATABASE_URL="postgresql://nobody@127.0.0.1:1/x")
    assert done.returncode == 1 and "the database is not running" in done.stderr
    assert not list(state.root.rglob("*.tar*"))


def rewritten(source: Path, target: Path, *, migrations: tuple[str, ...] = (), **num_rows: int) -> Path:
    """The same members with another manifest."""
    import msgspec

    from skippy_site.backup.archive import BackupWriter

    reader = BackupReader(source)
    writer = BackupWriter(target)
    for name in reader.manifest.members:
        writer.add(name, reader.chunks(name))
    writer.finish(
        msgspec.structs.replace(
            reader.manifest,
            migrations=(*reader.manifest.migrations, *migrations),
            num_rows={**reader.manifest.num_rows, **num_rows},
        )
    )
    reader.close()
    return target
