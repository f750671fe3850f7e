"""One service that is kept alive: started, waited for, restarted when it dies, given up in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from skippy_site.supervisor.backoff import Backoff, RestartPolicy
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.log_files import last_line
from skippy_site.supervisor.probes import Probe, Readiness, always_ready
from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.process import Child, Command, exit_text

_PROBE_EVERY_S = 0.1


class Tier(IntEnum):
    """Who needs whom: a higher tier is stopped before a lower one, those of one tier together."""

    DATABASE = 0
    BROKER = 1
    APPLICATION = 2


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the supervisor must know of a service. `name` is how people read it in lines."""

    name: str
    tier: Tier
    make_command: Callable[[], Command]
    """Called before each start: it may clear away what a crash left."""
    log_file: Path
    probe: Probe = always_ready
    """Asked until it is ready, and then, where `is_watched`, for as long as it runs."""
    is_watched: bool = False
    watch_every_s: float = 5.0
    max_missed: int = 6
    """Answers that may be missing in a row before a watched service counts as hung."""
    after_stop: Callable[[], None] = _nothing


class KeptService:
    """Runs one `Service` until it is stopped. Not reusable."""

    def __init__(
        self, service: Service, *, console: Console, policy: RestartPolicy, inherited_fds: Sequence[int]
    ) -> None:
        self.service = service
        self._console = console
        self._backoff = Backoff(policy)
        self._inherited_fds = tuple(inherited_fds)
        self._child: Child | None = None
        self._complaint = ""
        self.is_ready = asyncio.Event()

    def __repr__(self) -> str:
        return f"KeptService({self.service.name}, {self._child}, {self._backoff})"

    async def keep(self) -> None:
        """Start and restart until cancelled; the process then still runs, see stop().

        Raises ServiceProblem when it is given up: the message names the service, its log and the
        last line there.
        """
        num_starts = 0
        while True:
            num_starts += 1
            child = self._child = Child(self.service.make_command(), inherited_fds=self._inherited_fds)
            self._complaint = ""
            healthy_s = await self._run_once(child, is_restart=num_starts > 1)
            exit_code = await child.wait()
            self.is_ready.clear()
            delay_s = self._backoff.failed(healthy_s=healthy_s)
            if delay_s is None:
                raise ServiceProblem(self._last_word(exit_code))
            self._console.line(
                f"{self.service.name}: {exit_text(exit_code)}; starting it again in {delay_s:g} s"
            )
            await asyncio.sleep(delay_s)

    async def stop(self, *, hurry: asyncio.Event) -> None:
        """End the process, if any. keep() is cancelled first."""
        if self._child is not None:
            await self._child.stop(hurry=hurry)
        self.service.after_stop()

    async def _run_once(self, child: Child, *, is_restart: bool) -> float:
        """Until the process ends. Returns for how many seconds it was ready."""
        ended = asyncio.create_task(child.wait())
        try:
            if not await self._until_ready(child, ended):
                return 0.0
            ready_ts = time.monotonic()
            self._backoff.became_ready()
            self.is_ready.set()
            if is_restart:
                self._console.line(f"{self.service.name} is back")
            await self._until_ended(child, ended)
            return time.monotonic() - ready_ts
        finally:
            ended.cancel()

    async def _until_ready(self, child: Child, ended: asyncio.Task[int]) -> bool:
        """Whether it became ready before it ended. No limit: recovering and loading take their time."""
        with self._console.waiting(f"{self.service.name} is starting") as waiting:
            while not ended.done():
                found = await self._ask(ended)
                if found.is_ready:
                    return True
                if found.is_broken:
                    await self._end_broken(child, found.detail)
                    return False
                waiting.detail = found.detail
                await asyncio.wait({ended}, timeout=_PROBE_EVERY_S)
        return False

    async def _until_ended(self, child: Child, ended: asyncio.Task[int]) -> None:
        if not self.service.is_watched:
            await asyncio.wait({ended})
            return
        num_missed = 0
        while not ended.done():
            await asyncio.wait({ended}, timeout=self.service.watch_every_s)
            if ended.done():
                return
            found = await self._ask(ended)
            num_missed = num_missed + 1 if found.is_silent else 0
            if found.is_broken:
                await self._end_broken(child, found.detail)
            elif num_missed >= self.service.max_missed:
                await self._end_broken(child, "it does not answer any more")

    async def _ask(self, ended: asyncio.Task[int]) -> Readiness:
        """The probe's answer, or silence if the process ends meanwhile."""
        asked = asyncio.ensure_future(self.service.probe())
        try:
            await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else Readiness(is_ready=False, is_silent=True)
        finally:
            asked.cancel()

    async def _end_broken(self, child: Child, detail: str) -> None:
        self._complaint = detail or "it cannot work"
        self._console.line(f"{self.service.name}: {self._complaint}; ending it")
        # Whoever hangs is not asked for long.
        in_a_hurry = asyncio.Event()
        in_a_hurry.set()
        await child.stop(hurry=in_a_hurry)

    def _last_word(self, exit_code: int) -> str:
        log_file = self.service.log_file
        said = last_line(log_file)
        return (
            f"{self.service.name} ended {self._backoff.num_failures} times in a row "
            f"({self._complaint or exit_text(exit_code)}); its log: {log_file}"
            f"{'; last line there: ' if said else ''}{said}"
        )
