from __future__ import annotations

from pathlib import Path

import pytest

from skippy_site.env import read_environment
from skippy_site.state import StateFolder
from skippy_site.supervisor.discovery import (
    database_problem,
    embedded_urls,
    needs_embedded_postgres,
    needs_embedded_valkey,
    publish_urls,
    service_urls,
    withdraw_urls,
)
from skippy_site.supervisor.urls import ServiceUrls

PUBLISHED = ServiceUrls(
    database_url="postgresql://u:secret@db/x", redis_url="redis://r/1", broker_url="amqp://b"
)


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    state = StateFolder(tmp_path / "home")
    state.make()
    return state


def test_without_anything_the_embedded_sockets_are_meant(state: StateFolder) -> None:
    assert service_urls(read_environment({}), state) == embedded_urls(state)


def test_what_the_supervisor_wrote_down_comes_before_the_embedded_sockets(state: StateFolder) -> None:
    publish_urls(PUBLISHED, state)

    assert service_urls(read_environment({}), state) == PUBLISHED
    assert state.services_file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in state.run.iterdir()] == [state.services_file.name]

    withdraw_urls(state)
    assert service_urls(read_environment({}), state) == embedded_urls(state)


def test_what_is_given_comes_first(state: StateFolder) -> None:
    publish_urls(PUBLISHED, state)
    given = read_environment(
        {"DATABASE_URL": "postgres://me@other/y", "REDIS_URL": "redis://o/2", "CELERY_BROKER_URL": "amqp://o"}
    )

    assert service_urls(given, state) == ServiceUrls(
        database_url="postgres://me@other/y", redis_url="redis://o/2", broker_url="amqp://o"
    )


def test_a_given_redis_is_the_broker_too(state: StateFolder) -> None:
    urls = service_urls(read_environment({"REDIS_URL": "unix:///srv/r.sock?db=3"}), state)

    assert urls.broker_url == "redis+socket:///srv/r.sock?virtual_host=3"
    assert urls.redis_url == "unix:///srv/r.sock?db=3"


@pytest.mark.parametrize(
    ("broker", "redis"),
    [
        ("amqp://b", ""),
        ("redis://b/1", "redis://b/1"),
        ("redis+socket:///s?virtual_host=1", "unix:///s?db=1"),
    ],
)
def test_a_given_broker_is_the_redis_only_if_it_is_one(state: StateFolder, broker: str, redis: str) -> None:
    assert service_urls(read_environment({"CELERY_BROKER_URL": broker}), state).redis_url == redis


def test_a_broken_services_file_is_as_good_as_none(state: StateFolder) -> None:
    state.services_file.write_text('{"database_url": "postgr')

    assert service_urls(read_environment({}), state) == embedded_urls(state)


def test_either_broker_url_replaces_valkey() -> None:
    assert needs_embedded_valkey(read_environment({"DATABASE_URL": "postgres://h/d"}))
    assert not needs_embedded_valkey(read_environment({"REDIS_URL": "redis://h"}))
    assert not needs_embedded_valkey(read_environment({"CELERY_BROKER_URL": "amqp://h"}))
    assert needs_embedded_postgres(read_environment({"REDIS_URL": "redis://h"}))
    assert not needs_embedded_postgres(read_environment({"DATABASE_URL": "postgres://h/d"}))


def test_urls_do_not_show_passwords() -> None:
    assert "secret" not in repr(PUBLISHED)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (
            'connection to server on socket "/x/.s.PGSQL.5432" failed: No such file or directory\n\tIs the',
            "not running: start `make serve`",
        ),
        ("connection failed: Connection refused", "not running"),
        ("couldn't get a connection after 5.00 sec", "does not answer"),
        ("connection failed: FATAL:  the database system is starting up", "starting up"),
        ('connection to server on socket "/x" failed: Permission denied', "belongs to another user"),
        ("relation does not exist\nLINE 1: SELECT 'a secret'", "cannot be used: relation does not exist"),
        ("", "cannot be used: OSError"),
    ],
)
def test_a_database_problem_is_one_line_without_values(raised: str, expected: str) -> None:
    line = database_problem(OSError(raised))

    assert expected in line
    assert "\n" not in line
    assert "secret" not in line
