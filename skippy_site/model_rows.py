"""What models as rows need to know of this site: its environment, its folders, what makes a file a model.

A row's source is hf:org/repo/file.gguf, or a path; one that does not begin with a slash is looked for in
the models folder of the state folder, so that the folder can be moved with all that is in it.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from inference.domain.errors import InvalidRequest
from inference.domain.model import id_from_file_name
from inference.model_rows.first_row import FirstModel
from inference.model_rows.reports import ServingProcess
from skippy_site.env import Environment
from skippy_site.provision.model_source import HUB_PREFIX, ModelProblem, check_gguf, parse_hub_name
from skippy_site.state import StateFolder

# The settings that each model may have of its own.
ENGINE_FIELDS = (
    "lanes",
    "context",
    "threads",
    "batch_threads",
    "media_threads",
    "batch",
    "micro_batch",
    "gpu_layers",
    "split_mode",
    "tensor_split",
    "main_gpu",
    "kv_type_k",
    "kv_type_v",
    "flash_attention",
    "load_mode",
    "prefix_cache",
)
_VARIABLE = re.compile(r"\bSKIPPY_([A-Z0-9_]+)\b")
_MAX_SHOWN_NAME = 64


def source_path(source: str, state: StateFolder) -> Path | None:
    """Where a source's file is; None for one on a hub."""
    if source.startswith(HUB_PREFIX):
        return None
    return state.models / Path(source).expanduser()


def written_source(given: str, state: StateFolder) -> str:
    """The same the other way: how a path of this machine is written down in a row."""
    if given.startswith(HUB_PREFIX):
        return given
    path = Path(given).expanduser().absolute()
    return str(path.relative_to(state.models)) if path.is_relative_to(state.models) else str(path)


def first_model(environment: Environment, state: StateFolder, found: Mapping[str, str]) -> FirstModel | None:
    """What the environment says of a model. `found` has the files that the supervisor resolved it to
    (SKIPPY_MODEL_PATH, SKIPPY_MMPROJ_PATH); None where nothing says anything."""
    path = found.get("SKIPPY_MODEL_PATH") or environment.model
    if not path:
        return None
    is_on_hub = environment.model.startswith(HUB_PREFIX)
    projector = environment.mmproj or found.get("SKIPPY_MMPROJ_PATH", "")
    return FirstModel(
        id=environment.model_id or id_from_file_name(Path(path)),
        source=written_source(environment.model if is_on_hub else path, state),
        projector_source=written_source(projector, state) if projector else "",
        is_named=bool(environment.model),
    )


def serving_process() -> ServingProcess:
    """This one, under a name of its own."""
    return ServingProcess(uuid4(), f"{socket.gethostname()}/{os.getpid()}")


class SiteModelChecks:
    """Implements inference.model_rows.checks.ModelChecks."""

    def __init__(self, environment: Environment, state: StateFolder) -> None:
        self._environment = environment
        self._state = state

    def check_engine(self, engine: Mapping[str, Any], *, param: str) -> None:
        """By the ranges and the rules of the environment's own settings, of which these take the place."""
        for name in engine:
            if name not in ENGINE_FIELDS:
                shown = "".join(c if c.isprintable() else "?" for c in name[:_MAX_SHOWN_NAME])
                known = ", ".join(ENGINE_FIELDS)
                raise InvalidRequest(
                    f"Invalid '{param}.{shown}': there is no such setting; there are {known}.",
                    param=f"{param}.{shown}",
                )
        try:
            msgspec.convert({**msgspec.structs.asdict(self._environment), **engine}, Environment)
        except msgspec.ValidationError as problem:
            raise _refused(str(problem), param) from None

    def check_source(self, source: str, *, param: str) -> None:
        try:
            path = source_path(source, self._state)
            if path is None:
                parse_hub_name(source, variable=param)
                return
            if _is_special(path):
                raise ModelProblem(f"{param}: {path} is no ordinary file")
            check_gguf(path, variable=param)
        except ModelProblem as problem:
            text = str(problem).removeprefix(f"{param}: ").rstrip(".")
            raise InvalidRequest(f"Invalid '{param}': {text}.", param=param) from None


def _is_special(path: Path) -> bool:
    """A pipe or a device, which would be waited for."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _refused(problem: str, param: str) -> InvalidRequest:
    text, _, path = problem.partition(" - at `$.")
    named = path.rstrip("`")
    if not named:
        variable = _VARIABLE.search(text)
        named = "" if variable is None else variable[1].lower()
        text = _VARIABLE.sub(lambda found: found[1].lower(), text).removeprefix(f"{named}: ")
    full = f"{param}.{named}" if named else param
    return InvalidRequest(f"Invalid '{full}': {text[:1].lower()}{text[1:]}.", param=full)


def make_model_checks() -> SiteModelChecks:
    """Named by the setting MODEL_CHECKS."""
    from django.conf import settings

    return SiteModelChecks(settings.ENVIRONMENT, settings.STATE)
