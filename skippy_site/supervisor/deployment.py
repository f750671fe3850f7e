"""The story of a start: what is brought up, in what order, and what each part is told.

    locks → port → Postgres → Valkey → migrations, first administrator → model → server → worker, beat

The background processes come last: nobody waits for them, and the server should have the processor
while it loads the model.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from inference.domain.model import id_from_file_name
from skippy_site.env import Environment
from skippy_site.model_sources import is_first_model_used
from skippy_site.state import StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.discovery import (
    needs_embedded_postgres,
    needs_embedded_valkey,
    publish_urls,
    service_urls,
    withdraw_urls,
)
from skippy_site.supervisor.kept_service import Service, Tier
from skippy_site.supervisor.port import check_port_is_free
from skippy_site.supervisor.postgres import EmbeddedPostgres
from skippy_site.supervisor.probes import http_ready, own_address
from skippy_site.supervisor.problems import StartProblem
from skippy_site.supervisor.process import Command
from skippy_site.supervisor.programs import Programs
from skippy_site.supervisor.remains import StateLocks, take_over
from skippy_site.supervisor.supervisor import Step, Supervisor
from skippy_site.supervisor.system_account import ACCOUNT_NAME
from skippy_site.supervisor.urls import ServiceUrls
from skippy_site.supervisor.valkey import EmbeddedValkey

_STOP_MARGIN_S = 10.0
_WORKER_GRACE_S = 15.0
_MAX_NAMED_MODELS = 5


class Administrator(msgspec.Struct, frozen=True):
    """What a first start made: shown once, kept nowhere."""

    username: str
    password: str
    api_key: str

    def __repr__(self) -> str:
        return f"Administrator({self.username})"


class KnownModel(msgspec.Struct, frozen=True):
    """A model that was set up before this start."""

    id: str
    source: str


class FirstRun(msgspec.Struct, frozen=True):
    """The answer of the command `first_run`; no administrator where there was one already."""

    administrator: Administrator | None
    models: tuple[KnownModel, ...] = ()


class ModelLine(msgspec.Struct, frozen=True):
    """One line of model_step.py."""

    progress: str = ""
    path: str = ""
    projector: str = ""
    problem: str = ""


class Deployment:
    """One run of the service on this machine. `start_up` once, `close` after everything has stopped."""

    def __init__(
        self,
        environment: Environment,
        state: StateFolder,
        console: Console,
        *,
        programs: Programs | None = None,
        account_name: str = ACCOUNT_NAME,
    ) -> None:
        """`account_name` is the user that Postgres gets where root starts the service."""
        self._environment = environment
        self._state = state
        self._console = console
        self._programs = programs or Programs.of_this_checkout(state)
        self._account_name = account_name
        self._locks: StateLocks | None = None
        self._administrator: Administrator | None = None
        self._models: tuple[KnownModel, ...] = ()
        self._model_path = ""
        self._projector_path = ""

    @property
    def base_url(self) -> str:
        """The URL that people use: SKIPPY_PUBLIC_URL, or the address that we listen at."""
        if self._environment.public_url:
            return self._environment.public_url.rstrip("/")
        host = own_address(self._environment.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self._environment.port}"

    @property
    def _served(self) -> str:
        """The models, as people call them."""
        names = [model.id for model in self._models]
        if not names:
            names = [self._environment.model_id or id_from_file_name(Path(self._model_path))]
        rest = len(names) - _MAX_NAMED_MODELS
        shown = ", ".join(names[:_MAX_NAMED_MODELS])
        return f"model{'s' if len(names) > 1 else ''} {shown}{f' and {rest} more' if rest > 0 else ''}"

    async def start_up(self, supervisor: Supervisor) -> None:
        """See the module. Raises StartProblem with one line where the start cannot go on."""
        self._locks = await take_over(self._state, self._console)
        supervisor.hand_down(self._locks.children.descriptor)
        check_port_is_free(self._environment.host, self._environment.port)
        # Nothing that an earlier run wrote down: what is not given is what we start now.
        withdraw_urls(self._state)
        if needs_embedded_postgres(self._environment):
            await self._start_postgres(supervisor)
        if needs_embedded_valkey(self._environment):
            await self._start_valkey(supervisor)
        urls = service_urls(self._environment, self._state)
        publish_urls(urls, self._state)
        await self._prepare_database(supervisor, urls)
        sources = [model.source for model in self._models]
        if is_first_model_used(self._environment.model, sources, self._state):
            await self._find_model(supervisor, urls)
        await self._start_server(supervisor, urls)
        await self._start_background(supervisor, urls)
        self._console.line(
            f"Skippy is ready: API {self.base_url}/v1 · console {self.base_url}/console/ · {self._served}"
        )

    def close(self) -> None:
        """Give the state folder back; nothing if it was never ours."""
        if self._locks is not None:
            withdraw_urls(self._state)
            self._locks.release()

    async def _start_postgres(self, supervisor: Supervisor) -> None:
        postgres = EmbeddedPostgres(self._state, account_name=self._account_name)
        with self._console.waiting("preparing Postgres"):
            await postgres.prepare(supervisor.run_command)
        await supervisor.start(
            Service(
                name="Postgres",
                tier=Tier.DATABASE,
                make_command=postgres.command,
                log_file=postgres.log_file,
                probe=postgres.probe,
                after_stop=postgres.clean_up,
            )
        )
        self._console.line("Postgres is ready")

    async def _start_valkey(self, supervisor: Supervisor) -> None:
        valkey = EmbeddedValkey(self._state)
        valkey.prepare()
        await supervisor.start(
            Service(
                name="Valkey",
                tier=Tier.BROKER,
                make_command=valkey.command,
                log_file=valkey.log_file,
                probe=valkey.probe,
                after_stop=valkey.clean_up,
            )
        )
        self._console.line("Valkey is ready")

    async def _prepare_database(self, supervisor: Supervisor, urls: ServiceUrls) -> None:
        await supervisor.run_step(
            Step(
                name="preparing the database",
                command=self._command(self._programs.first_run, urls, log_name="first_run"),
                on_line=self._on_first_run_line,
            )
        )
        self._console.line("the database is up to date")
        if self._administrator is not None:
            made = self._administrator
            self._administrator = None
            self._console.block(
                [
                    "First start: an administrator and an API key were made.",
                    "They are shown this once, and we keep them nowhere in readable form. Where a log keeps",
                    "these lines (systemd, containers), set another password: manage.py password_link "
                    f"{made.username}",
                    "",
                    f"console    {self.base_url}/console/",
                    f"user       {made.username}",
                    f"password   {made.password}",
                    f"API key    {made.api_key}",
                ]
            )

    def _on_first_run_line(self, line: str) -> None:
        # Other lines are dropped, not shown: whatever they are, they may hold a secret.
        with contextlib.suppress(msgspec.DecodeError):
            answer = msgspec.json.decode(line, type=FirstRun)
            self._administrator, self._models = answer.administrator, answer.models

    async def _find_model(self, supervisor: Supervisor, urls: ServiceUrls) -> None:
        command = self._command(self._programs.model, urls, log_name="model")
        await supervisor.run_step(
            Step(name="finding the model", command=command, on_line=self._on_model_line)
        )
        if not self._model_path:
            raise StartProblem(f"no model was found; log: {command.log_file}")

    def _on_model_line(self, line: str) -> None:
        try:
            said = msgspec.json.decode(line, type=ModelLine)
        except msgspec.DecodeError:
            return  # a library that prints on its own
        if said.problem:
            raise StartProblem(said.problem)
        if said.progress:
            self._console.line(said.progress)
        self._model_path = said.path
        self._projector_path = said.projector or self._projector_path

    async def _start_server(self, supervisor: Supervisor, urls: ServiceUrls) -> None:
        command = self._command(
            self._programs.server,
            urls,
            log_name="server",
            extra={"SKIPPY_MODEL_PATH": self._model_path, "SKIPPY_MMPROJ_PATH": self._projector_path},
            stop_grace_s=self._environment.drain_grace_s + _STOP_MARGIN_S,
        )
        self._console.line(f"loading {Path(self._model_path).name or 'the models'}")
        await supervisor.start(
            Service(
                name="the server",
                tier=Tier.APPLICATION,
                make_command=lambda: command,
                log_file=command.log_file,
                probe=partial(http_ready, self._environment.host, self._environment.port, "/readyz"),
                is_watched=True,
            )
        )

    async def _start_background(self, supervisor: Supervisor, urls: ServiceUrls) -> None:
        for name, argv in (("worker", self._programs.worker), ("beat", self._programs.beat)):
            command = self._command(
                argv, urls, log_name=name, stop_grace_s=_WORKER_GRACE_S, hurry_signal=signal.SIGQUIT
            )
            await supervisor.start(
                Service(
                    name=f"the {name}" if name == "worker" else name,
                    tier=Tier.APPLICATION,
                    make_command=partial(_same, command),
                    log_file=command.log_file,
                )
            )

    def _command(
        self,
        argv: tuple[str, ...],
        urls: ServiceUrls,
        *,
        log_name: str,
        extra: Mapping[str, str] | None = None,
        stop_grace_s: float = 10.0,
        hurry_signal: signal.Signals = signal.SIGTERM,
    ) -> Command:
        return Command(
            argv=argv,
            environment={
                **os.environ,
                **urls.as_environment(),
                "SKIPPY_HOME": str(self._state.root),
                "DJANGO_SETTINGS_MODULE": "skippy_site.settings",
                "PYTHONUNBUFFERED": "1",
                **(extra or {}),
            },
            folder=self._programs.folder,
            log_file=self._state.logs / f"{log_name}.log",
            stop_grace_s=stop_grace_s,
            hurry_signal=hurry_signal,
        )


def _same(command: Command) -> Command:
    return command
