from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path

import pytest

from skippy_site.supervisor.backoff import RestartPolicy
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.kept_service import Service, Tier
from skippy_site.supervisor.probes import Probe, Readiness, always_ready
from skippy_site.supervisor.process import Command
from skippy_site.supervisor.supervisor import Step, Supervisor

QUICK = RestartPolicy(first_delay_s=0.01, max_delay_s=0.02, max_failures=3, max_failures_before_ready=2)


class Stage:
    """A supervisor over shell scripts that write what happens to them into one journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = StringIO()
        self.supervisor = Supervisor(console=Console(self.shown), policy=QUICK)

    @property
    def journal(self) -> list[str]:
        file = self.folder / "journal"
        return file.read_text().split() if file.exists() else []

    def command(self, script: str, name: str) -> Command:
        return Command(
            argv=("/bin/sh", "-c", script),
            environment={"PATH": os.environ["PATH"]},
            folder=self.folder,
            log_file=self.folder / f"{name}.log",
        )

    def service(
        self, name: str, tier: Tier = Tier.APPLICATION, *, script: str = "", probe: Probe | None = None
    ) -> Service:
        """Notes its start and its end; by default ready once it has noted the start."""
        script = script or (
            f"trap 'echo -{name} >> journal; exit 0' TERM; echo +{name} >> journal; "
            "while :; do sleep 0.02; done"
        )
        command = self.command(script, name)

        async def has_started() -> Readiness:
            return Readiness(is_ready=f"+{name}" in self.journal)

        return Service(
            name=name,
            tier=tier,
            make_command=lambda: command,
            log_file=command.log_file,
            probe=probe or has_started,
        )

    async def run(self, start_up: Callable[[Supervisor], Awaitable[None]]) -> int:
        async with asyncio.timeout(20):
            return await self.supervisor.run(start_up)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def ask_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_each_waits_for_the_one_before_and_stops_before_the_one_it_needs(stage: Stage) -> None:
    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.start(stage.service("database", Tier.DATABASE))
        await supervisor.start(stage.service("broker", Tier.BROKER))
        await supervisor.run_step(
            Step(name="migrating", command=stage.command("echo step >> journal", "step"))
        )
        await supervisor.start(stage.service("server"))
        ask_to_stop()

    assert await stage.run(start_up) == 0
    assert stage.journal == ["+database", "+broker", "step", "+server", "-server", "-broker", "-database"]
    assert stage.shown.getvalue().endswith("stopped\n")


async def test_a_service_that_dies_is_started_again(stage: Stage) -> None:
    script = "echo +flaky >> journal; [ $(wc -l < journal) -ge 3 ] && exec sleep 60; exit 1"

    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.start(stage.service("flaky", script=script, probe=always_ready))
        while len(stage.journal) < 3:
            await asyncio.sleep(0.01)
        ask_to_stop()

    assert await stage.run(start_up) == 0
    assert stage.shown.getvalue().count("flaky: exit code 1; starting it again") == 2


async def test_a_service_that_keeps_dying_ends_the_run_with_a_last_word(stage: Stage) -> None:
    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.start(stage.service("database", Tier.DATABASE))
        await supervisor.start(
            stage.service("broken", script="echo no such model >&2; exit 4", probe=always_ready)
        )

    assert await stage.run(start_up) == 1
    last = stage.shown.getvalue().splitlines()[-1]
    assert "broken ended 3 times in a row (exit code 4)" in last
    assert str(stage.folder / "broken.log") in last
    assert last.endswith("last line there: no such model")
    assert stage.journal == ["+database", "-database"]


async def test_a_service_that_can_never_become_ready_is_given_up_sooner(stage: Stage) -> None:
    async def broken() -> Readiness:
        return Readiness(is_ready=False, is_broken=True, detail="the engine could not be started")

    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.start(stage.service("server", probe=broken))

    assert await stage.run(start_up) == 1
    assert "server ended 2 times in a row (the engine could not be started)" in stage.shown.getvalue()


async def test_a_watched_service_that_goes_silent_is_restarted(stage: Stage) -> None:
    answers = iter([Readiness(is_ready=True), *[Readiness(is_ready=False, is_silent=True)] * 2])

    async def probe() -> Readiness:
        return next(answers, Readiness(is_ready=True))

    service = stage.service("server")

    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.start(
            Service(
                name="server",
                tier=Tier.APPLICATION,
                make_command=service.make_command,
                log_file=service.log_file,
                probe=probe,
                is_watched=True,
                watch_every_s=0.3,
                max_missed=2,
            )
        )
        while "server is back" not in stage.shown.getvalue():
            await asyncio.sleep(0.01)
        ask_to_stop()

    assert await stage.run(start_up) == 0
    assert "server: it does not answer any more; ending it" in stage.shown.getvalue()


async def test_a_step_that_fails_is_one_line_and_stops_what_runs(stage: Stage) -> None:
    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.start(stage.service("database", Tier.DATABASE))
        await supervisor.run_step(
            Step(name="migrating", command=stage.command("echo no table >&2; exit 1", "step"))
        )

    assert await stage.run(start_up) == 1
    last = stage.shown.getvalue().splitlines()[-1]
    assert "Skippy cannot start: migrating failed (exit code 1)" in last
    assert "no table" in last
    assert stage.journal == ["+database", "-database"]


async def test_a_signal_during_a_step_ends_the_step(stage: Stage) -> None:
    script = "trap 'echo cut >> journal; exit 1' TERM; echo begun >> journal; while :; do sleep 0.02; done"

    async def stop_once_begun() -> None:
        while stage.journal != ["begun"]:
            await asyncio.sleep(0.01)
        ask_to_stop()

    stopping = asyncio.create_task(stop_once_begun())

    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.run_step(Step(name="migrating", command=stage.command(script, "step")))

    assert await stage.run(start_up) == 0
    await stopping
    assert stage.journal == ["begun", "cut"]


async def test_a_terminal_that_is_gone_does_not_matter(stage: Stage) -> None:
    stage.shown.close()

    async def start_up(supervisor: Supervisor) -> None:
        await supervisor.start(stage.service("server"))
        ask_to_stop()

    assert await stage.run(start_up) == 0
    assert stage.journal == ["+server", "-server"]
