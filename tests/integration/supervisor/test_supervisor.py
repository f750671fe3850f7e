"""The whole supervisor with real Postgres and Valkey; the service's own processes are stand-ins."""

from __future__ import annotations

import re
import signal
import socket
import stat
from pathlib import Path

import psycopg
import pytest

from skippy_site.env import read_environment
from skippy_site.supervisor.discovery import service_urls
from tests.integration.supervisor.conftest import StartService
from tests.integration.supervisor.running_service import ROLES, RunningService, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def num_starts(service: RunningService) -> int:
    """What the stand-in of the first step counted in the database; found as other commands find it."""
    url = service_urls(read_environment({}), service.state).database_url
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM starts").fetchone()
    assert row is not None
    return int(row[0])


def assert_nothing_is_left(service: RunningService) -> None:
    assert service.processes() == []
    left = [path for path in service.state.root.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]
    assert left == []
    assert {path.name for path in service.state.run.iterdir()} <= {"beat-schedule"}


def test_one_start_brings_everything_up_and_sigterm_leaves_nothing(make_service: StartService) -> None:
    service = make_service().start()

    assert all(service.has(role) for role in ("postgres", "valkey", *ROLES))
    assert service.state.services_file.stat().st_mode & 0o777 == 0o600
    assert num_starts(service) == 1
    order = [
        service.output.index(text) for text in ("Postgres is", "Valkey is", "up to date", "is ready: API")
    ]
    assert order == sorted(order)
    assert service.output.count("Skippy is ready") == 1

    assert service.stop() == 0
    assert_nothing_is_left(service)


def test_credentials_are_shown_once_and_never_logged(make_service: StartService) -> None:
    service = make_service().start()
    assert service.output.count("pass-word-shown-once") == 1
    assert service.output.count("sk-skippy-shown-once") == 1
    assert service.stop() == 0

    service.start()
    assert "shown-once" not in service.output
    assert num_starts(service) == 2
    for log in service.state.root.rglob("*.log*"):
        assert b"shown-once" not in log.read_bytes()


def test_a_killed_child_comes_back_and_disturbs_no_other(make_service: StartService) -> None:
    service = make_service().start()
    service.wait_for_broker_use()
    pids = {role: service.pid_of(role) for role in ("postgres", "valkey", *ROLES)}

    for role in ("server", "worker", "beat", "valkey"):
        killed = service.kill(role)
        wait_until(
            lambda role=role, killed=killed: service.has(role) and service.pid_of(role) != killed,
            limit_s=10,
            what=f"a new {role}",
        )
        pids[role] = service.pid_of(role)
        assert {other: service.pid_of(other) for other in pids} == pids

    service.wait_for_line("the server is back")
    service.wait_for_line("Valkey is back")
    assert service.output.count("ended by SIGKILL; starting it again in 0.2 s") == 4
    assert service.stop() == 0
    assert_nothing_is_left(service)


def test_postgres_comes_back_after_a_kill_with_what_it_had(make_service: StartService) -> None:
    service = make_service().start()
    server = service.pid_of("server")
    # A session in progress keeps a backend alive that must not stand in the way of the restart.
    url = service_urls(read_environment({}), service.state).database_url
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("CREATE TABLE kept AS SELECT 1 AS number")
        service.kill("postgres")
        service.wait_for_line("Postgres is back")

    assert num_starts(service) == 1
    assert service.pid_of("server") == server
    assert service.stop() == 0
    assert_nothing_is_left(service)


def test_a_killed_supervisor_leaves_no_child_and_the_next_start_works(make_service: StartService) -> None:
    service = make_service().start()
    processes = service.processes()
    assert len(processes) >= 5

    service.signal(signal.SIGKILL)
    service.wait_for_exit()

    wait_until(lambda: not any(map(_exists, processes)), limit_s=5, what="all children gone")
    assert service.processes() == []
    service.start()
    assert num_starts(service) == 2
    assert service.stop() == 0
    assert_nothing_is_left(service)


def test_a_start_at_the_moment_of_the_kill_waits_for_the_old_children(make_service: StartService) -> None:
    service = make_service().start()
    successor = make_service(service.state.root, port=service.port)

    successor.launch()  # finds the other still running, and the lock free a moment later
    service.signal(signal.SIGKILL)

    successor.wait_for_line("Skippy is ready", limit_s=30)
    assert num_starts(successor) == 2
    assert successor.stop() == 0
    assert_nothing_is_left(successor)


def test_what_a_killed_worker_had_forked_ends_too(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_WORKER_FORKS": "1"}).start()
    wait_until(lambda: _children_of(service.pid_of("worker")), limit_s=10, what="the forked process")
    forked = _children_of(service.pid_of("worker"))

    service.kill("worker")

    wait_until(lambda: not any(map(_exists, forked)), limit_s=5, what="the forked process gone")
    assert service.stop() == 0
    assert_nothing_is_left(service)


def test_the_next_start_ends_what_a_killed_supervisor_could_not(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_WORKER_FORKS": "1"}).start()
    wait_until(lambda: _children_of(service.pid_of("worker")), limit_s=10, what="the forked process")
    (forked,) = _children_of(service.pid_of("worker"))
    service.signal(signal.SIGKILL)
    service.wait_for_exit()

    service.start()

    assert not _exists(forked)
    assert service.stop() == 0
    assert_nothing_is_left(service)


def test_a_second_supervisor_is_refused_and_disturbs_nothing(make_service: StartService) -> None:
    service = make_service().start()

    second = make_service(service.state.root).launch()

    assert second.wait_for_exit() == 1
    assert second.says(rf"already runs with this state folder \(process {service.process.pid}\)")
    assert len(second.lines) == 1
    assert service.state.services_file.exists()
    assert num_starts(service) == 1


def test_a_port_in_use_is_one_line_before_anything_starts(make_service: StartService) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        service = make_service(port=port).launch()
        assert service.wait_for_exit() == 1

    assert len(service.lines) == 1
    assert service.says(rf"port {port} on 127\.0\.0\.1 is in use")
    assert not service.state.postgres.exists()


def test_a_wrong_setting_is_one_line_and_exit_code_2(make_service: StartService) -> None:
    service = make_service(environment={"SKIPPY_LANES": "many"}).launch()

    assert service.wait_for_exit() == 2
    assert len(service.lines) == 1
    assert service.says("SKIPPY_LANES")


def test_a_server_that_cannot_start_is_the_last_word(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_SERVER_FAILS": "1"}).launch()

    assert service.wait_for_exit() == 1
    last = service.lines[-1]
    assert "Skippy cannot start: the server ended 3 times in a row (exit code 3)" in last
    assert str(service.state.logs / "server.log") in last
    assert "the model file is broken" in last
    assert_nothing_is_left(service)


def test_a_service_that_keeps_dying_later_stops_all_with_a_last_word(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_BEAT_FAILS": "1"}).launch()

    assert service.wait_for_exit() == 1
    assert "beat ended 4 times in a row (exit code 1)" in service.lines[-1]
    assert "no schedule" in service.lines[-1]
    assert_nothing_is_left(service)


def test_an_engine_that_died_gets_its_server_restarted(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_WATCH": "1"}).start()
    before = service.pid_of("server")

    (service.state.root / "readyz").write_text("failed")
    service.wait_for_line("the server: failed; ending it")
    (service.state.root / "readyz").unlink()

    service.wait_for_line("the server is back")
    assert service.pid_of("server") != before


def test_a_problem_with_the_model_is_told_as_it_is(make_service: StartService) -> None:
    problem = "SKIPPY_MODEL: /no/such.gguf is not a file"
    service = make_service(environment={"FAKE_MODEL_PROBLEM": problem}).launch()

    assert service.wait_for_exit() == 1
    assert re.search(rf"Skippy cannot start: {re.escape(problem)}\n$", service.lines[-1])
    assert_nothing_is_left(service)


def test_ctrl_c_while_starting_stops_what_was_started(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_MODEL_S": "60"}).launch()
    service.wait_for_line("fetching the model")

    service.signal(signal.SIGINT)

    assert service.wait_for_exit(limit_s=10) == 0
    assert not service.says("Skippy is ready")
    assert_nothing_is_left(service)


def test_a_stop_waits_for_running_answers(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_DRAIN_S": "3"}).start()
    database = service.pid_of("postgres")

    service.signal(signal.SIGTERM)
    wait_until(lambda: not service.has("beat"), limit_s=3, what="beat gone")

    assert service.has("server")
    assert _exists(database), "the database outlives those that need it"
    assert service.wait_for_exit() == 0
    assert_nothing_is_left(service)


def test_a_second_signal_is_faster(make_service: StartService) -> None:
    service = make_service(environment={"FAKE_DRAIN_S": "60"}).start()
    service.signal(signal.SIGTERM)
    service.wait_for_line("stopping: running answers may end")

    service.signal(signal.SIGTERM)

    assert wait_until(lambda: not service.is_alive, limit_s=10, what="the end") < 8
    assert service.wait_for_exit() == 0
    assert_nothing_is_left(service)


def _exists(pid: int) -> bool:
    """Whether it still runs; a zombie waits only for whoever inherited it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]
