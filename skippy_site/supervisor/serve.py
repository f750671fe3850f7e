"""The command `serve` from the first check to the exit code; loads no Django.

Exit codes: 0 after a stop that somebody asked for, 1 if something keeps the service from running,
2 if a setting is wrong. Each problem is one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys

from skippy_site.env import Environment, EnvironmentProblem, read_environment
from skippy_site.state import StateFolder
from skippy_site.supervisor.backoff import RestartPolicy
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.deployment import Deployment
from skippy_site.supervisor.programs import Programs
from skippy_site.supervisor.supervisor import Supervisor
from skippy_site.supervisor.system_account import ACCOUNT_NAME, owner_of

_SPARE_DESCRIPTORS = 512


def serve(
    *,
    programs: Programs | None = None,
    policy: RestartPolicy | None = None,
    account_name: str = ACCOUNT_NAME,
) -> int:
    """Run the service until it is asked to stop. Returns the exit code.

    The arguments are for tests: other child processes, other patience, another user for Postgres.
    """
    try:
        environment = read_environment()
    except EnvironmentProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    state = StateFolder.from_environment()
    try:
        state.make()
    except OSError as error:
        sys.stderr.write(f"SKIPPY_HOME: the state folder {state.root} cannot be used: {error.strerror}\n")
        return 2
    owner = owner_of(state.run)
    if owner.uid != os.geteuid():
        # Files of two owners in one folder would lock the first one out of it.
        sys.stderr.write(
            f"SKIPPY_HOME: the state folder {state.root} belongs to {owner.name}: run this as {owner.name}, "
            "or choose another\n"
        )
        return 2
    _allow_descriptors(environment)
    console = Console()
    deployment = Deployment(environment, state, console, programs=programs, account_name=account_name)
    supervisor = Supervisor(console=console, policy=policy)
    try:
        return asyncio.run(supervisor.run(deployment.start_up))
    except OSError as error:
        sys.stderr.write(f"the state folder {state.root} cannot be used: {error}\n")
        return 1
    finally:
        deployment.close()


def _allow_descriptors(environment: Environment) -> None:
    """Raise the soft limit, which children inherit: a connection is a descriptor, and the usual 1,024
    are fewer than the connections that the server may hold."""
    wanted = environment.connection_limit + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
