"""A database that an earlier version made is brought up to date by a start, and says the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection as fresh
from psycopg import sql

from accounts.keys import digest_of
from skippy_site.state import CHECKOUT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480), pytest.mark.django_db]

HERE = Path(__file__).resolve().parent
# Of the administrator, of ann, and of ann's that was revoked.
KEYS = {
    "serve": (
        "sk-skippy-d2u30wJTrsBoaJbFQEIEpfzQrFEzD1nvukngwzUdOu91PfJF0",
        "sk-skippy-M3NJT7RUiEBdydQ8MS5GXX43LY6HNtDdFfH2V8R7ytb403rVW",
        "sk-skippy-M4c2UVCroap148Vrj3oNUE34vyghGnI5GdjvS5Oc4g01mYWbV",
    ),
    "ledger": (
        "sk-skippy-CYrE6BHhqdblHugRAMU2TJYbPChKE6FxxArF8JQrITQ103QDw",
        "sk-skippy-IgZHZPvuzpBmMHOZ4vDWqpMJicFhYQ0lD0IimcfXlix1sUN1d",
        "sk-skippy-q781MZwj5DJ3qr6GOVIOAeY2gLzOmU3u6Hiw3w2hBuT497DMY",
    ),
}
_CASTS = re.compile(r"::(?:character varying|text)(?:\[\])?|[()\s]")
SCHEMA = {
    "columns": """
        SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "triggers": "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal",
    "functions": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
}


@pytest.fixture(params=sorted(KEYS))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(version: str) -> Iterator[str]:
    """A database as that version left it, beside the tests' own."""
    address = os.environ["DATABASE_URL"]
    name = f"upgrade_{version}"
    with psycopg.connect(address, autocommit=True) as server:
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        old = address.replace("/skippy?", f"/{name}?")
        with psycopg.connect(old) as connection:
            connection.execute((HERE / f"{version}.sql").read_text().encode())
        yield old
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def manage(url: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def schema(rows: Any) -> set[tuple[Any, ...]]:
    """Without months, which come and go with the calendar, and without casts and brackets: Postgres writes a
    condition that was dumped and read again with others than at first."""
    found = {tuple([_CASTS.sub("", cell) if isinstance(cell, str) else cell for cell in row]) for row in rows}
    return {row for row in found if not any("inference_generationrecord_2" in str(cell) for cell in row)}


def test_an_older_database_is_brought_up_to_date_and_says_the_same(version: str, url: str) -> None:
    records = "SELECT count(*), sum(num_input_tokens), sum(num_output_tokens) FROM inference_generationrecord"
    assert json.loads(manage(url, "first_run", "--migrate", "--json"))["administrator"] is None
    keys = ask(url, "SELECT digest, revoked_at IS NOT NULL FROM accounts_apikey ORDER BY id")
    assert keys == [
        (digest_of(key), revoked) for key, revoked in zip(KEYS[version], (False, False, True), strict=True)
    ]
    shown = json.loads(manage(url, "api_key_list", "--json"))
    assert [key["name"] for key in shown if key["user"] == "ann"] == ["lost", "laptop"]
    if version == "ledger":
        assert ask(url, records) == [(40, 820, 1640)]
        manage(url, "usage_rebuild", "--from", "2026-11-01", "--to", "2026-12-01")
        usage = (
            "SELECT sum(num_requests), sum(num_input_tokens), sum(num_output_tokens) "
            "FROM inference_usagebucket"
        )
        assert ask(url, usage) == [(40, 820, 1640)]
        assert ask(url, "SELECT name, max_tokens_per_day FROM accounts_team") == [("Physics", 1000)]
    else:
        assert ask(url, records) == [(0, None, None)]
    manage(url, "api_key_create", "--user", "bob", "--name", "new", "--json")


def test_afterwards_its_tables_are_those_of_a_new_one(version: str, url: str) -> None:
    manage(url, "first_run", "--migrate", "--json")
    for what, statement in SCHEMA.items():
        with fresh.cursor() as cursor:
            cursor.execute(statement)
            expected = schema(cursor.fetchall())
        assert schema(ask(url, statement)) == expected, what
