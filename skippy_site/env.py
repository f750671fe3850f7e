"""Reads the environment once, typed and checked, so that a wrong setting is one line at start.

Every setting is a field of `Environment` below; settings_page.py makes docs/configuration.md from it.
Conversion and ranges are msgspec's; what it cannot say (URLs, networks) is checked in `__post_init__`.
"""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from inference.admission.concurrency import ConcurrencySettings
from inference.admission.queue import default_max_queue
from skippy_site.engine_settings import engine_config
from skippy_site.sign_in_settings import SignInSettings

Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=10)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]


class EnvironmentProblem(Exception):
    """A setting that cannot be used; the message is one line that names it."""


class Environment(SignInSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. The environment's name is the field's in upper case after SKIPPY_, except for
    the three URLs, which keep the names that everybody knows."""

    home: Annotated[str, Meta(description="state folder; default: .skippy in the checkout")] = ""
    host: Annotated[str, Meta(min_length=1, description="address to listen at")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535, description="port to listen at")] = 8000
    model: Annotated[
        str,
        Meta(
            description="the first model: a GGUF file's path, or hf:org/repo/file.gguf; default: "
            "SmolLM2-135M-Instruct. The first start makes it a row, and then rows hold (docs/models.md)"
        ),
    ] = ""
    model_id: Annotated[
        str,
        Meta(
            max_length=200,
            description="the first model's id, which clients send; default: from the file's name",
        ),
    ] = ""
    max_requests_per_minute: Annotated[
        Positive, Meta(description="requests that each key may make in a minute, whatever its own limits are")
    ] = 1_000_000
    max_tokens_per_minute: Annotated[
        Positive, Meta(description="tokens that each key may use in a minute, whatever its own limits are")
    ] = 1_000_000
    lanes: Annotated[int, Meta(ge=1, le=250, description="sequences that generate at once")] = 16
    context: Annotated[
        int, Meta(ge=256, le=16_777_216, description="KV cells shared by all lanes (tokens)")
    ] = 16_384
    threads: Annotated[
        int, Meta(ge=0, le=512, description="threads that llama.cpp computes with; 0: the number of cores")
    ] = 0
    batch_threads: Annotated[
        int,
        Meta(
            ge=0,
            le=512,
            description="the same for steps of more than one token (prompts, several streams); 0: as many",
        ),
    ] = 0
    batch: Annotated[int, Meta(ge=32, le=65_536, description="tokens of one step, at most")] = 512
    micro_batch: Annotated[
        int,
        Meta(
            ge=1, le=65_536, description="tokens computed at once within a step; fewer need smaller buffers"
        ),
    ] = 512
    embedding_tokens: Annotated[
        int,
        Meta(
            ge=0,
            le=1_048_576,
            description="tokens of one text that is embedded, at most; 0: 2,048, and 8,192 for a model that "
            "only embeds and may read a text in parts",
        ),
    ] = 0
    gpu_layers: Annotated[
        str,
        Meta(
            description="layers that GPUs compute: all (or -1), or how many; default: all where the build "
            "of llama.cpp has a GPU, else none (docs/hardware.md)"
        ),
    ] = ""
    split_mode: Annotated[
        Literal["layer", "row", "none"],
        Meta(description="several GPUs share a model by layer or by row; none: one has it all"),
    ] = "layer"
    tensor_split: Annotated[
        str,
        Meta(description="each GPU's share, in any unit, such as 3,1; default: by free memory"),
    ] = ""
    main_gpu: Annotated[
        int, Meta(ge=0, le=63, description="the GPU that has it all under split mode none, counted from 0")
    ] = 0
    kv_type_k: Annotated[
        Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"],
        Meta(description="in which form K is kept in KV cells; smaller ones hold more, less exactly"),
    ] = "f16"
    kv_type_v: Annotated[
        Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"],
        Meta(description="the same for V; quantized ones need flash attention"),
    ] = "f16"
    flash_attention: Annotated[
        Literal["auto", "on", "off"],
        Meta(description="attention without writing all scores down; auto: where the device can"),
    ] = "auto"
    load_mode: Annotated[
        Literal["auto", "mmap", "read", "mlock"],
        Meta(
            description="weights are mapped from the file (mmap), read into memory (read), or mapped and "
            "kept there (mlock); auto: as llama.cpp thinks best"
        ),
    ] = "auto"
    swa_full: Annotated[
        bool,
        Meta(
            description="layers with a sliding window keep all tokens, which takes more memory; without it "
            "their prompts cannot share beginnings"
        ),
    ] = True
    prefix_cache: Annotated[
        bool, Meta(description="prompts that begin alike share what was computed for their beginning")
    ] = True
    host_cache_bytes: Annotated[
        int,
        Meta(
            ge=-1,
            le=1 << 44,
            description="memory of the machine for what was computed for prompts and has no room in the KV "
            "cells; 0: none, -1: a sixteenth of the machine's memory, 8 GiB at most",
        ),
    ] = -1
    disk_cache_dir: Annotated[
        str,
        Meta(
            description="a folder of its own, on a local disk, for what has no room there either; empty: none"
        ),
    ] = ""
    disk_cache_bytes: Annotated[
        int, Meta(ge=0, le=1 << 50, description="size of that folder, for each model")
    ] = 8 * 1024 * 1024 * 1024
    shared_prefixes: Annotated[
        bool,
        Meta(
            description="users share it with each other; by how fast an answer comes they can then tell "
            "what others have asked"
        ),
    ] = False
    queue: Annotated[
        int, Meta(ge=0, le=10_000, description="requests that may wait; 0: 8 for a lane, 16 to 256")
    ] = 0
    adaptive_concurrency: Annotated[
        bool, Meta(description="look for the number of requests at once that serves best, up to the lanes")
    ] = False
    adaptive_initial_limit: Annotated[
        int, Meta(ge=0, le=250, description="requests at once that it starts with; 0: the lanes")
    ] = 0
    adaptive_window: Annotated[
        int, Meta(ge=1, le=10_000, description="completed requests for each of its decisions")
    ] = 16
    adaptive_min_improvement: Annotated[
        Share, Meta(description="gain of throughput that is worth one more request at once")
    ] = 0.03
    adaptive_max_latency_regression: Annotated[
        Share, Meta(description="rise of the 95th percentile of latency that is not")
    ] = 0.10
    adaptive_max_hardware_regression: Annotated[
        Share, Meta(description="rise of the 95th percentile of the time for a computed token that is not")
    ] = 0.10
    adaptive_cooldown_windows: Annotated[
        int, Meta(ge=0, le=1000, description="decisions without a new attempt after one that failed")
    ] = 2
    adaptive_relief_windows: Annotated[
        int, Meta(ge=0, le=1000, description="decisions at one limit before one fewer is tried; 0: never")
    ] = 8
    adaptive_idle_reset_s: Annotated[
        Seconds, Meta(description="time without demand after which measurements are forgotten")
    ] = 5.0
    server: Annotated[Literal["daphne", "uvicorn"], Meta(description="ASGI server behind the adapter")] = (
        "daphne"
    )
    max_connections: Annotated[
        int, Meta(ge=1, le=65_000, description="open connections; never fewer than queue + lanes")
    ] = 1024
    max_body_bytes: Annotated[
        int, Meta(ge=1024, le=1 << 30, description="largest request body; 413 above")
    ] = 32 * 1024 * 1024
    header_timeout_s: Annotated[Seconds, Meta(description="time for a request's headers to arrive")] = 20.0
    body_timeout_s: Annotated[Seconds, Meta(description="time for a request's body to arrive")] = 120.0
    drain_grace_s: Annotated[
        Seconds, Meta(description="time that running answers get to end after SIGTERM")
    ] = 20.0
    watchdog_s: Annotated[
        Seconds,
        Meta(
            description="an engine with work whose steps do not end for so long is given up, and the server "
            "starts again; 0: never"
        ),
    ] = 120.0
    admission_timeout_s: Annotated[
        Seconds,
        Meta(description="time to wait for a lane, busy sessions included; 429 then; 0: until cancelled"),
    ] = 60.0
    request_timeout_s: Annotated[
        Seconds,
        Meta(description="time for a whole request; 504 then; `timeout_s` in a body lowers it; 0: none"),
    ] = 600.0
    token_gap_timeout_s: Annotated[
        Seconds,
        Meta(
            description="time for the next token of an answer that has begun, not counting its reader's and "
            "hooks' time; 504 then; 0: none"
        ),
    ] = 0.0
    stall_timeout_s: Annotated[
        float,
        Meta(gt=0, le=60, description="time that a client may leave one message of its answer unread"),
    ] = 10.0
    early_headers_s: Annotated[
        Seconds,
        Meta(description="a stream that waits longer gets its headers before it is admitted; 0: never"),
    ] = 15.0
    keep_alive_s: Annotated[
        Seconds, Meta(description="silence of a stream after which a comment keeps it alive; 0: never")
    ] = 15.0
    text_retention_days: Annotated[
        int, Meta(ge=1, le=3650, description="time that prompts and answers stay, for keys that keep text")
    ] = 30
    stale_auth_s: Annotated[
        Seconds,
        Meta(
            description="while the database is away, keys that were used lately go on working for so long; "
            "a revocation is then obeyed that much later"
        ),
    ] = 0.0
    allow_gbnf: Annotated[
        bool, Meta(description="take grammars in llama.cpp's notation (GBNF) from clients")
    ] = False
    strict_fields: Annotated[bool, Meta(description="answer 400 to body fields that nobody defines")] = False
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least level that is logged")
    ] = "info"
    database_url: Annotated[str, Meta(description="Postgres to use instead of the embedded one")] = ""
    redis_url: Annotated[str, Meta(description="Redis to use instead of the embedded Valkey")] = ""
    celery_broker_url: Annotated[str, Meta(description="Celery's broker, where it is not REDIS_URL")] = ""

    def __post_init__(self) -> None:
        if self.adaptive_initial_limit > self.lanes:
            raise ValueError(
                f"SKIPPY_ADAPTIVE_INITIAL_LIMIT: {self.adaptive_initial_limit} is more than "
                f"SKIPPY_LANES, {self.lanes}"
            )
        self.check_watching()
        self.check_chat()
        self.check_media()
        _ = self.adapters
        if self.database_url and urlsplit(self.database_url).scheme not in ("postgres", "postgresql"):
            raise ValueError("DATABASE_URL: not a postgresql:// URL")
        for name, url in (("REDIS_URL", self.redis_url),):
            if url and urlsplit(url).scheme not in ("redis", "rediss", "unix"):
                raise ValueError(f"{name}: not a redis://, rediss:// or unix:// URL")
        self.check_speculation()
        self.check_hooks()
        self.check_doors()
        self.check_sign_in()
        engine_config(self)

    @property
    def loopback(self) -> str:
        """The address at which other processes of this machine reach the server."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104

    @property
    def max_queue(self) -> int:
        """Requests that may wait; where nothing is said, it follows from the lanes."""
        return self.queue or default_max_queue(self.lanes)

    @property
    def concurrency(self) -> ConcurrencySettings:
        """How many of the lanes are used at once."""
        return ConcurrencySettings(
            is_adaptive=self.adaptive_concurrency,
            initial_limit=self.adaptive_initial_limit or None,
            window=self.adaptive_window,
            min_improvement=self.adaptive_min_improvement,
            max_latency_regression=self.adaptive_max_latency_regression,
            max_hardware_regression=self.adaptive_max_hardware_regression,
            cooldown_windows=self.adaptive_cooldown_windows,
            relief_windows=self.adaptive_relief_windows,
            idle_reset_s=self.adaptive_idle_reset_s,
        )

    @property
    def connection_limit(self) -> int:
        return max(self.max_connections, self.max_queue + self.lanes)


UNPREFIXED = {
    "database_url": "DATABASE_URL",
    "redis_url": "REDIS_URL",
    "celery_broker_url": "CELERY_BROKER_URL",
}


def variable_name(field: str) -> str:
    """The environment variable that sets a field."""
    return UNPREFIXED.get(field, f"SKIPPY_{field.upper()}")


def read_environment(source: Mapping[str, str] | None = None) -> Environment:
    """Read and check all settings. An empty variable counts as absent.

    Raises EnvironmentProblem with one line that names the variable at fault. Variables named
    SKIPPY_… that nobody defines are not an error: they may belong to a newer version's commands.
    """
    source = os.environ if source is None else source
    given = {
        field: source[variable_name(field)].strip()
        for field in Environment.__struct_fields__
        if source.get(variable_name(field), "").strip()
    }
    for field, value in list(given.items()):
        if _annotation(field).startswith(("bool", "Annotated[bool")):
            given[field] = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(
                value.lower(), value.lower()
            )
    try:
        return msgspec.convert(given, Environment, strict=False)
    except msgspec.ValidationError as problem:
        raise EnvironmentProblem(one_line(str(problem), given)) from None


def _annotation(field: str) -> str:
    owners = (owner.__annotations__ for owner in Environment.__mro__ if "__annotations__" in vars(owner))
    return next(str(owner[field]) for owner in owners if field in owner)


def one_line(message: str, given: Mapping[str, str]) -> str:
    text, _, path = message.partition(" - at `$.")
    field = path.rstrip("`")
    if field not in given:
        return text
    shown = "the given value" if "url" in field or "secret" in field else repr(given[field])
    for kind, words in (("`int`", "a whole number"), ("`float`", "a number"), ("`bool`", "true or false")):
        text = text.replace(f"Expected {kind}, got `str`", f"expected {words}").replace(kind, words)
    if text.startswith("Invalid enum value"):
        literal = typing.get_args(typing.get_type_hints(Environment)[field])
        text = f"expected {' or '.join(literal)}"
    return f"{variable_name(field)}: {text[0].lower()}{text[1:]}, not {shown}"
