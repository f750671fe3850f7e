from __future__ import annotations

from pathlib import Path

import pytest

from skippy_site.env import read_environment
from skippy_site.state import StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.deployment import Administrator, Deployment
from skippy_site.supervisor.programs import Programs


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"SKIPPY_HOST": "0.0.0.0", "SKIPPY_PORT": "80"}, "http://127.0.0.1:80"),  # noqa: S104
        ({"SKIPPY_HOST": "::1"}, "http://[::1]:8000"),
        ({"SKIPPY_PUBLIC_URL": "https://ai.example.org/"}, "https://ai.example.org"),
    ],
)
def test_the_url_that_people_are_told(tmp_path: Path, settings: dict[str, str], url: str) -> None:
    deployment = Deployment(read_environment(settings), StateFolder(tmp_path), Console())

    assert deployment.base_url == url


def test_secrets_are_not_in_a_repr() -> None:
    assert repr(Administrator("admin", "a-password", "sk-a-key")) == "Administrator(admin)"


def test_the_worker_forks_no_processes_that_could_stay_behind(tmp_path: Path) -> None:
    programs = Programs.of_this_checkout(StateFolder(tmp_path))

    assert "--pool=solo" in programs.worker
    assert f"--schedule={tmp_path / 'run' / 'beat-schedule'}" in programs.beat
