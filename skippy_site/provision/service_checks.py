"""Checks of what the service stands on: settings, state folder, databases, ports. Needs .venv."""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import os
import pwd
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from inference.engine.memory_plan import DeviceMemory
from skippy_site.env import Environment, EnvironmentProblem, read_environment, variable_name
from skippy_site.provision.findings import Check, Finding, ok, problem, warning
from skippy_site.provision.model_source import (
    DRAFT_MODEL,
    HUB_PREFIX,
    MODEL,
    PROJECTOR,
    ModelProblem,
    check_gguf,
    parse_hub_name,
)
from skippy_site.state import StateFolder
from skippy_site.supervisor.lock import written_pid
from skippy_site.supervisor.port import check_port_is_free
from skippy_site.supervisor.postgres_programs import postgres_programs
from skippy_site.supervisor.probes import http_get, own_address
from skippy_site.supervisor.problems import StartProblem
from skippy_site.supervisor.valkey import EmbeddedValkey

CONNECT_TIMEOUT_S = 5
MIN_POSTGRES = 14  # Django 5.2's minimum
OTHER_VARIABLES = {"SKIPPY_PG_BIN", "SKIPPY_LLAMA_BACKEND"}  # read outside of Environment


@dataclass(frozen=True, slots=True)
class ServiceChecks:
    """The settings of one environment and the state folder that they name."""

    source: Mapping[str, str]
    environment: Environment
    state: StateFolder

    def all(self) -> list[tuple[str, Check]]:
        return [
            ("model", self.model),
            ("projector", self.projector),
            ("draft model", self.draft_model),
            ("state folder", self.state_folder),
            ("Postgres", self.postgres),
            ("broker", self.broker),
            ("service", self.running),
        ]

    def model(self) -> Iterator[Finding]:
        given = self.environment.model
        if given:
            yield _file_finding("model", given, MODEL)
        else:
            yield ok("model", "the default one (SmolLM2-135M-Instruct)")

    def projector(self) -> Iterator[Finding]:
        if self.environment.mmproj:
            yield _file_finding("projector", self.environment.mmproj, PROJECTOR)

    def draft_model(self) -> Iterator[Finding]:
        if self.environment.draft_model:
            yield _file_finding("draft model", self.environment.draft_model, DRAFT_MODEL)

    def state_folder(self) -> Iterator[Finding]:
        root = self.state.root
        if not root.exists():
            yield ok("state folder", f"{root} is made at the first start")
            return
        found = root.stat()
        if found.st_uid != os.geteuid():
            yield problem(
                "state folder",
                f"{root} belongs to {_user(found.st_uid)}, and you are {_user(os.geteuid())}",
                f"run the service as {_user(found.st_uid)}, or set SKIPPY_HOME to a folder of your own",
            )
            return
        if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
            yield problem("state folder", f"{root} cannot be written to", f"chmod u+rwx '{root}'")
            return
        if stat.S_IMODE(found.st_mode) & 0o067:
            yield warning("state folder", f"{root} is open to other users", f"chmod 700 '{root}'")
        else:
            yield ok("state folder", str(root))
        key = self.state.secret_key_file
        if key.exists() and stat.S_IMODE(key.stat().st_mode) & 0o077:
            yield problem("secret key", f"{key} can be read by other users", f"chmod 600 '{key}'")

    def postgres(self) -> Iterator[Finding]:
        if self.environment.database_url:
            yield from self._given_postgres()
            return
        try:
            programs = postgres_programs(account=None, copy_to=self.state.postgres / "programs")
            yield ok("Postgres", f"embedded, {programs.version}")
        except StartProblem as failure:
            yield problem("Postgres", str(failure))
        if os.geteuid() == 0:
            yield ok("Postgres", "you are root: it runs as a system user of its own")

    def _given_postgres(self) -> Iterator[Finding]:
        import psycopg

        where = _address(self.environment.database_url)
        try:
            with psycopg.connect(
                self.environment.database_url, connect_timeout=CONNECT_TIMEOUT_S
            ) as connection:
                version = connection.info.server_version // 10_000
        except psycopg.Error as failure:
            reason = str(failure).strip().partition("\n")[0] or type(failure).__name__
            yield problem(
                "Postgres", f"DATABASE_URL ({where}): {reason}", "check the address and the password"
            )
            return
        if version < MIN_POSTGRES:
            yield problem(
                "Postgres", f"{where} is version {version}", f"use Postgres {MIN_POSTGRES} or later"
            )
        else:
            yield ok("Postgres", f"{where}, version {version}")

    def broker(self) -> Iterator[Finding]:
        given = self.environment.celery_broker_url or self.environment.redis_url
        if not given:
            program = EmbeddedValkey(self.state).command().argv[0]
            ran = subprocess.run(
                [program, "--version"], capture_output=True, text=True, timeout=30, check=False
            )
            if ran.returncode == 0:
                yield ok("broker", f"embedded, {ran.stdout.split(' sha=')[0].strip()}")
            else:
                yield problem("broker", "the embedded Valkey does not run here", "set REDIS_URL")
            return
        for name, url in (
            ("REDIS_URL", self.environment.redis_url),
            ("CELERY_BROKER_URL", self.environment.celery_broker_url),
        ):
            if url:
                yield self._given_broker(name, url)

    def _given_broker(self, name: str, url: str) -> Finding:
        from skippy_site.supervisor.urls import broker_url_from_redis

        kombu: Any = importlib.import_module("kombu")  # it has no types
        where = _address(url)
        options = {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_timeout": CONNECT_TIMEOUT_S}
        is_redis = urlsplit(url).scheme in ("redis", "rediss", "unix", "redis+socket")
        try:
            with kombu.Connection(
                broker_url_from_redis(url),
                connect_timeout=CONNECT_TIMEOUT_S,
                transport_options=options if is_redis else {},
            ) as connection:
                connection.ensure_connection(max_retries=1, timeout=CONNECT_TIMEOUT_S)
                if is_redis:
                    connection.default_channel.client.ping()
        except Exception as failure:  # every transport raises its own
            reason = str(failure).strip().partition("\n")[0] or type(failure).__name__
            return problem("broker", f"{name} ({where}): {reason}", "check the address and the password")
        return ok("broker", f"{name}: {where} answers")

    @property
    def is_running(self) -> bool:
        """Somebody serves from this state folder."""
        return _is_locked(self._lock)

    @property
    def _lock(self) -> Path:
        return self.state.run / "supervisor.lock"

    def running(self) -> Iterator[Finding]:
        host, port = self.environment.host, self.environment.port
        lock = self._lock
        if not self.is_running:
            try:
                check_port_is_free(host, port)
            except StartProblem as failure:
                yield problem("service", f"it does not run, and it could not: {failure}")
            else:
                yield ok("service", f"it does not run; {host}:{port} is free for it")
            return
        try:
            answer = asyncio.run(http_get(own_address(host), port, "/readyz"))
        except (OSError, TimeoutError):
            yield warning(
                "service",
                f"it runs (process {written_pid(lock)}) but does not answer at {host}:{port}",
                f"it may be starting; look into {self.state.logs}",
            )
            return
        status = answer.body.get("status", answer.status)
        level = ok if answer.status == 200 else warning
        yield level("service", f"it runs at {host}:{port} (process {written_pid(lock)}): {status}")
        yield from _memory_findings(answer.body)


def settings_findings(source: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the settings can be used, and variables that look like settings but are none."""
    known = {variable_name(field) for field in Environment.__struct_fields__} | OTHER_VARIABLES
    unknown = sorted(name for name in source if name.startswith("SKIPPY_") and name not in known)
    if unknown:
        yield warning("settings", f"nobody reads {', '.join(unknown)}", "look for a misspelling")
    try:
        read_environment(source)
    except EnvironmentProblem as failure:
        yield problem("settings", str(failure), "change or unset that variable")
    else:
        given = sorted(name for name in known if source.get(name, "").strip())
        yield ok("settings", ", ".join(given) if given else "none given; the defaults hold")


def _memory_findings(readiness: Mapping[str, Any]) -> Iterator[Finding]:
    """What the models of a running service take, as it says itself; nothing of those that are not loaded."""
    statistics = readiness.get("statistics") or {}
    for name, model in (statistics.get("models") or {}).items():
        for one in model.get("engine", {}).get("memory", ()):
            yield ok(f"memory of {name}", str(DeviceMemory(**one)))


def _is_locked(path: os.PathLike[str]) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _address(url: str) -> str:
    """A URL without what is secret in it."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _file_finding(name: str, given: str, variable: str) -> Finding:
    """Whether what a variable gives can be a file to load."""
    try:
        if not given.startswith(HUB_PREFIX):
            return ok(name, str(check_gguf(Path(given).expanduser().absolute(), variable=variable)))
        wanted = parse_hub_name(given, variable=variable)
        return ok(name, f"{wanted.file} of {wanted.repo} at {wanted.revision}")
    except ModelProblem as failure:
        return problem(name, str(failure))
