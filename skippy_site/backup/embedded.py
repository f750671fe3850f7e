"""The embedded Postgres without the service around it, for as long as a backup or a restore takes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skippy_site.state import StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.postgres import EmbeddedPostgres
from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.process import Child, Command, exit_text
from skippy_site.supervisor.remains import Patience, StateLocks, take_over

START_LIMIT_S = 300.0
_POLL_S = 0.05
_NO_WAIT = Patience(supervisor_s=0.0)


@asynccontextmanager
async def state_locks(state: StateFolder, console: Console) -> AsyncIterator[StateLocks]:
    """Nobody else uses the state folder meanwhile. Raises AlreadyRunning where somebody does."""
    locks = await take_over(state, console, _NO_WAIT)
    try:
        yield locks
    finally:
        locks.release()


@asynccontextmanager
async def embedded_postgres(
    state: StateFolder, console: Console, locks: StateLocks, *, account_name: str
) -> AsyncIterator[EmbeddedPostgres]:
    """It takes connections inside. A cluster is made where there is none. Raises ServiceProblem."""
    postgres = EmbeddedPostgres(state, account_name=account_name)
    with console.waiting("preparing Postgres"):
        await postgres.prepare(_run_to_end)
    child = Child(postgres.command(), inherited_fds=(locks.children.descriptor,))
    try:
        with console.waiting("starting Postgres"):
            await _until_ready(child, postgres)
        yield postgres
    finally:
        await child.stop(hurry=asyncio.Event())
        postgres.clean_up()


def remove_cluster(postgres: EmbeddedPostgres) -> None:
    """What a restore that failed has made; it runs no more."""
    shutil.rmtree(postgres.location.data, ignore_errors=True)


async def _run_to_end(command: Command) -> int:
    return await Child(command).wait()


async def _until_ready(child: Child, postgres: EmbeddedPostgres) -> None:
    ended = asyncio.ensure_future(child.wait())
    try:
        async with asyncio.timeout(START_LIMIT_S):
            while not (await postgres.probe()).is_ready:
                if ended.done():
                    raise ServiceProblem(
                        f"Postgres ended ({exit_text(ended.result())}): see {postgres.log_file}"
                    )
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise ServiceProblem(f"Postgres does not come up: see {postgres.log_file}") from None
    finally:
        ended.cancel()
