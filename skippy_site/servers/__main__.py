"""`python -m skippy_site.servers`: the web process. One process, one engine, one server.

Exit codes: 0 after a clean stop, 1 when serving failed, 2 for a wrong setting.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module

from inference.engine.allocator import limit_arenas
from skippy_site.env import Environment, EnvironmentProblem, read_environment
from skippy_site.servers.contract import ListenConfig, ListenProblem
from skippy_site.servers.lifecycle import STOP_SIGNALS, leave_soon

WRONG_SETTING = 2


def listen_config(environment: Environment) -> ListenConfig:
    """The part of the settings that the servers need."""
    return ListenConfig(
        host=environment.host,
        port=environment.port,
        max_body_bytes=environment.max_body_bytes,
        header_timeout_s=environment.header_timeout_s,
        body_timeout_s=environment.body_timeout_s,
        max_connections=environment.connection_limit,
        drain_grace_s=environment.drain_grace_s,
        cross_origin=environment.cross_origin,
    )


def choose_server(name: str) -> Callable[..., int]:
    """The `serve` of one server. Imported late, because importing Daphne installs a reactor."""
    if name == "uvicorn":
        from skippy_site.servers.uvicorn import serve as serve_with_uvicorn

        return serve_with_uvicorn
    from skippy_site.servers.daphne import serve as serve_with_daphne

    return serve_with_daphne


def main() -> int:
    # Until the server listens to them: a stop during the slow imports is a clean stop too.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        environment = read_environment()
    except EnvironmentProblem as problem:
        print(problem, file=sys.stderr)  # noqa: T201
        return WRONG_SETTING
    # Before there are threads, which the imports begin.
    limit_arenas()
    # Read by the settings: this is the process in which many threads ask the database at once.
    os.environ["SKIPPY_DATABASE_POOL"] = "1"
    serve = choose_server(environment.server)
    # After the server: Django's set-up is slow, and Daphne's reactor must be the first.
    site = import_module("skippy_site.asgi")
    try:
        exit_code = serve(site.application, site.lifespan, listen_config(environment))
    except ListenProblem as problem:
        print(problem, file=sys.stderr)  # noqa: T201
        exit_code = 1
    leave_soon(exit_code)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
