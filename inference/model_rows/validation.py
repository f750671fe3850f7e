"""What a model's settings must be before they are written, with the field at fault in each refusal.

Every door comes through here, so that nothing that was saved is found to be wrong when it is loaded. What
is refused is an InvalidRequest whose `param` is the field's path, as "engine.lanes".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import ValidationError

from accounts.names import validate_name
from inference.domain.adapters import AdapterSettings
from inference.domain.errors import InvalidRequest
from inference.domain.model import canonical_model_id
from inference.domain.model_settings import ModelSettings
from inference.domain.speculation import SpeculationMode, SpeculationSettings
from inference.model_rows.checks import ModelChecks
from inference.models.model_row import (
    MAX_ADAPTER_NAME_LENGTH,
    MAX_ADAPTER_SCALE,
    MAX_ADAPTERS,
    MAX_ALIASES,
    MAX_DRAFT_TOKENS,
    MAX_IDLE_UNLOAD_S,
    MAX_MODEL_ID_LENGTH,
    MAX_SOURCE_LENGTH,
)
from inference.openai.request_defaults import parse_chat_defaults, parse_completion_defaults
from inference.prompting.chat_template import ChatTemplate, UnusableTemplate

MAX_JSON_CHARS = 1024 * 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_NOT_FOR_POSTGRES = re.compile(r"[\x00\ud800-\udfff]")


def invalid(param: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid '{param}': {problem}.", param=param)


def check_settings(settings: ModelSettings, *, checks: ModelChecks, before: ModelSettings | None) -> None:
    """Raises InvalidRequest. Files that `before` names already are not looked at again: a model is renamed
    also while its file is away."""
    check_names(settings.id, settings.aliases)
    known = set() if before is None else sources_of(before)
    for param, source in named_sources(settings):
        check_source_text(source, param=param)
        if source not in known:
            checks.check_source(source, param=param)
    check_adapters(settings.adapters)
    if not 0 <= settings.idle_unload_s <= MAX_IDLE_UNLOAD_S:
        raise invalid("idle_unload_s", f"it must be between 0 and {MAX_IDLE_UNLOAD_S:.0f}")
    check_speculation(settings.speculation)
    check_json(settings.engine, param="engine")
    check_json(settings.admission, param="admission")
    checks.check_sizes(engine=settings.engine, admission=settings.admission)
    check_defaults(settings)


def check_names(model_id: str, aliases: tuple[str, ...]) -> None:
    """Of one model, among themselves."""
    _check_name(model_id, param="model_id")
    if len(aliases) > MAX_ALIASES:
        raise invalid("aliases", f"a model has at most {MAX_ALIASES}")
    seen = {model_id}
    for alias in aliases:
        _check_name(alias, param="aliases")
        if alias in seen:
            raise invalid("aliases", f"{alias!r} is there twice, or is the id")
        seen.add(alias)


def named_sources(settings: ModelSettings) -> Iterator[tuple[str, str]]:
    """The field and the source of every file that a model is made of."""
    yield "source", settings.source
    if settings.projector_source:
        yield "projector_source", settings.projector_source
    if settings.speculation.draft_source:
        yield "speculation.draft_source", settings.speculation.draft_source
    for index, adapter in enumerate(settings.adapters):
        yield f"adapters.{index}.source", adapter.source


def sources_of(settings: ModelSettings) -> set[str]:
    return {source for _, source in named_sources(settings)}


def check_source_text(source: str, *, param: str) -> None:
    if not source.strip() or source != source.strip():
        raise invalid(param, "expected a GGUF file's path or hf:org/repo/file.gguf")
    if len(source) > MAX_SOURCE_LENGTH:
        raise invalid(param, f"it has at most {MAX_SOURCE_LENGTH} characters")
    if _CONTROL.search(source):
        raise invalid(param, "it must not contain control characters")


def check_adapters(adapters: tuple[AdapterSettings, ...]) -> None:
    if len(adapters) > MAX_ADAPTERS:
        raise invalid("adapters", f"a model has at most {MAX_ADAPTERS}")
    seen: set[str] = set()
    for index, adapter in enumerate(adapters):
        param = f"adapters.{index}"
        try:
            validate_name(adapter.name, max_length=MAX_ADAPTER_NAME_LENGTH)
        except ValidationError as problem:
            raise invalid(f"{param}.name", _sentence(problem)) from None
        if adapter.name in seen:
            raise invalid(f"{param}.name", f"{adapter.name!r} is there twice")
        seen.add(adapter.name)
        if not -MAX_ADAPTER_SCALE <= adapter.scale <= MAX_ADAPTER_SCALE:
            largest = f"{MAX_ADAPTER_SCALE:.0f}"
            raise invalid(f"{param}.scale", f"it must be between -{largest} and {largest}")


def check_speculation(speculation: SpeculationSettings) -> None:
    if not 1 <= speculation.max_draft_tokens <= MAX_DRAFT_TOKENS:
        raise invalid("speculation.max_draft_tokens", f"it must be between 1 and {MAX_DRAFT_TOKENS}")
    if speculation.mode is SpeculationMode.DRAFT_MODEL and not speculation.draft_source:
        raise invalid("speculation.draft_source", "speculation by a draft model needs one")


def check_defaults(settings: ModelSettings) -> None:
    for param, values in (
        ("chat_defaults", settings.chat_defaults),
        ("completion_defaults", settings.completion_defaults),
    ):
        check_json(values, param=param)
    chat = parse_chat_defaults(settings.chat_defaults)
    parse_completion_defaults(settings.completion_defaults)
    if chat.template_source is not None:
        try:
            ChatTemplate(chat.template_source, max_chars=MAX_JSON_CHARS)
        except UnusableTemplate as problem:
            raise invalid("chat_defaults.chat_template", str(problem)) from None


def check_json(value: Mapping[str, Any], *, param: str) -> None:
    """Whether Postgres can hold it: an object without NUL, half surrogates, or numbers that are none."""
    if not isinstance(value, dict):
        raise invalid(param, "expected a JSON object")
    try:
        text = json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError, OverflowError):
        raise invalid(param, "it cannot be kept as JSON") from None
    if len(text) > MAX_JSON_CHARS:
        raise invalid(param, f"it has at most {MAX_JSON_CHARS} characters as JSON")
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and _NOT_FOR_POSTGRES.search(one):
            raise invalid(param, "it must not contain NUL characters or halves of surrogate pairs")
        if isinstance(one, float) and not math.isfinite(one):
            raise invalid(param, "it must not contain numbers that are not finite")
        if isinstance(one, dict):
            waiting.extend(one)
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)


def _check_name(name: str, *, param: str) -> None:
    try:
        validate_name(name, max_length=MAX_MODEL_ID_LENGTH)
    except ValidationError as problem:
        raise invalid(param, _sentence(problem)) from None
    if name != name.strip():
        raise invalid(param, "it must not begin or end with spaces")
    if canonical_model_id(name) != name:
        raise invalid(param, 'write it without "@main", which clients may add')


def _sentence(problem: ValidationError) -> str:
    message = problem.messages[0].rstrip(".")
    return f"{message[:1].lower()}{message[1:]}"
