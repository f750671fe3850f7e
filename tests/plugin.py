"""Gives every test run its own state folder, and a Postgres and a Valkey where tests need them.

Loaded by `-p tests.plugin` and not from a conftest: the settings are read before those. The addresses
are known before anything runs, so they are set at once, and the servers are started only when what
was collected needs them: `pytest tests/unit` starts nothing. There is no other database to fall back
to. Nothing of the run survives it: the kernel ends the servers when the run is killed, and the next
run sweeps away the folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from skippy_site.state import StateFolder
from skippy_site.supervisor.discovery import embedded_urls
from skippy_site.supervisor.postgres import EmbeddedPostgres
from skippy_site.supervisor.probes import Probe
from skippy_site.supervisor.process import Child, Command
from skippy_site.supervisor.valkey import EmbeddedValkey

_T = TypeVar("_T")

ROOT = Path(__file__).resolve().parent
NEEDS_SERVICES = tuple(ROOT / name for name in ("integration", "contract", "browser"))
# These start servers of their own.
NEEDS_NONE = (ROOT / "integration" / "supervisor", ROOT / "integration" / "backup")
DATABASE_FIXTURES = frozenset({"db", "transactional_db", "django_db_reset_sequences", "live_server"})
# Settings of the person's shell must not change results; these choose what is tested.
KEPT_VARIABLES = frozenset(
    {"SKIPPY_PG_BIN", "SKIPPY_MODEL", "SKIPPY_SERVER", "SKIPPY_TEST_MODEL", "SKIPPY_SCREENSHOTS"}
)
FOLDER_PREFIX = "skippy-test-"
START_LIMIT_S = 60.0


class TestServices:
    """The servers of one run, in the state folder of that run."""

    __test__ = False

    def __init__(self, state: StateFolder) -> None:
        # As root: the user that every system has, so that a test run adds none to the machine.
        self._postgres = EmbeddedPostgres(state, is_durable=False, account_name="nobody")
        self._valkey = EmbeddedValkey(state)
        self._children: list[Child] = []

    def start(self) -> None:
        _run(self._start())

    def stop(self) -> None:
        _run(self._stop())

    async def _start(self) -> None:
        await self._postgres.prepare(_run_to_end)
        self._valkey.prepare()
        for command in (self._postgres.command(), self._valkey.command()):
            self._children.append(Child(command))
        postgres, valkey = self._children
        await asyncio.gather(
            _until_ready(postgres, self._postgres.probe), _until_ready(valkey, self._valkey.probe)
        )

    async def _stop(self) -> None:
        patient = asyncio.Event()
        await asyncio.gather(*(child.stop(hurry=patient) for child in self._children))
        self._postgres.clean_up()
        self._valkey.clean_up()


async def _run_to_end(command: Command) -> int:
    return await Child(command).wait()


async def _until_ready(child: Child, probe: Probe) -> None:
    detail = ""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_LIMIT_S):
            while child.exit_code is None:
                found = await probe()
                if found.is_ready:
                    return
                detail = found.detail
                await asyncio.sleep(0.02)
                if Path("/proc", str(child.pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    break
    said = child.command.log_file.read_text(errors="replace")[-2000:]
    raise pytest.UsageError(f"{child} does not come up: {detail}\n{said}")


def _run(work: Awaitable[_T]) -> _T:
    # Not asyncio.run(): that would unset the loop that pytest-asyncio may have chosen.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class Plugin:
    """One run's folder, and its servers once they are needed."""

    def __init__(self) -> None:
        sweep_dead_runs(Path(tempfile.gettempdir()))
        folder = tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-")
        self._state = StateFolder(Path(folder))
        self._state.make()
        self._services: TestServices | None = None

    def set_environment(self) -> None:
        for name in [name for name in os.environ if name.startswith("SKIPPY_")]:
            if name not in KEPT_VARIABLES:
                del os.environ[name]
        os.environ.update(embedded_urls(self._state).as_environment())
        os.environ["SKIPPY_HOME"] = str(self._state.root)
        # Several engines run at once here, on the same cores: nobody's threads should spin for long.
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        os.environ["DJANGO_SETTINGS_MODULE"] = "skippy_site.settings"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        is_needed = not session.config.option.collectonly and any(map(needs_services, session.items))
        if is_needed and self._services is None:
            self._services = TestServices(self._state)
            self._services.start()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if self._services is not None:
            _close_pools()
            self._services.stop()
        shutil.rmtree(self._state.root, ignore_errors=True)


def needs_services(item: pytest.Item) -> bool:
    """Whether a test reads a database: by its folder, its mark or its fixtures."""
    if item.get_closest_marker("django_db") is not None or not DATABASE_FIXTURES.isdisjoint(_fixtures(item)):
        return True
    return _is_below(item, NEEDS_SERVICES) and not _is_below(item, NEEDS_NONE)


def _is_below(item: pytest.Item, folders: Iterable[Path]) -> bool:
    return any(item.path.is_relative_to(folder) for folder in folders)


def _fixtures(item: pytest.Item) -> Iterable[str]:
    names: Iterable[str] = getattr(item, "fixturenames", ())
    return names


def _close_pools() -> None:
    # A pool that loses its server keeps trying to reach it, at the top of its voice.
    if "django.db" in sys.modules:
        from django.db import connections

        for connection in connections.all(initialized_only=True):
            connection.close()
            connection.close_pool()


def sweep_dead_runs(parent: Path) -> None:
    """Remove the folders of runs that were killed; their processes have ended with them."""
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        pid = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            is_ours = folder.stat().st_uid == os.geteuid()
            if pid.isdigit() and is_ours and not Path("/proc", pid).exists():
                shutil.rmtree(folder, ignore_errors=True)


# A wrapper, so that it comes before pytest-django's own hook, which reads the settings.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    plugin = Plugin()
    plugin.set_environment()
    early_config.pluginmanager.register(plugin, "skippy-services")
    return (yield)


def pytest_collection_finish() -> None:
    """What was loaded until now stays until the end: the collector need not look at it each time that a model
    is unloaded, which was half of the time of the API's tests."""
    gc.collect()
    gc.freeze()
