"""State folders short enough for sockets and reachable for every user, and services over them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skippy_site.state import StateFolder
from skippy_site.supervisor.postgres_location import outside_base
from tests.integration.supervisor.running_service import RunningService

StartService = Callable[..., RunningService]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A fresh folder under /tmp, mode 0700."""
    path = Path(tempfile.mkdtemp(prefix="skippy-it-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def make_service(folder: Path) -> Iterator[StartService]:
    """Makes services (default: with `folder` as their state folder) that end with the test."""
    made: list[RunningService] = []

    def make(home: Path | None = None, **options: object) -> RunningService:
        service = RunningService(home or folder, **options)  # type: ignore[arg-type]
        made.append(service)
        return service

    yield make
    for service in made:
        service.close()
        shutil.rmtree(outside_base(StateFolder(service.state.root)), ignore_errors=True)
