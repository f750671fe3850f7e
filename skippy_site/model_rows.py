"""What models as rows need to know of this site: its environment, its folders, what makes a file a model."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from inference.domain.errors import InvalidRequest
from inference.domain.model import id_from_file_name
from inference.model_rows.first_row import FirstModel
from inference.model_rows.reports import ServingProcess
from skippy_site.env import Environment
from skippy_site.model_sizes import ADMISSION_FIELDS, ENGINE_FIELDS, model_environment
from skippy_site.model_sources import source_path, written_source
from skippy_site.provision.model_source import HUB_PREFIX, ModelProblem, check_gguf, parse_hub_name
from skippy_site.state import StateFolder

_MAX_SHOWN_NAME = 64
_FIELDS = {"engine": ENGINE_FIELDS, "admission": ADMISSION_FIELDS}
_FIRST_WORD = re.compile(r"[a-z_]+\b")
_FIELD_BEFORE = re.compile(r"^[a-z_]+: ")


def first_model(environment: Environment, state: StateFolder, found: Mapping[str, str]) -> FirstModel | None:
    """What the environment says of a model. `found` has the files that the supervisor resolved it to
    (SKIPPY_MODEL_PATH, SKIPPY_MMPROJ_PATH); None where nothing says anything."""
    path = found.get("SKIPPY_MODEL_PATH") or environment.model
    if not path:
        return None
    is_on_hub = environment.model.startswith(HUB_PREFIX)
    projector = environment.mmproj or found.get("SKIPPY_MMPROJ_PATH", "")
    draft = environment.draft_model
    return FirstModel(
        id=environment.model_id or id_from_file_name(Path(path)),
        source=written_source(environment.model if is_on_hub else path, state),
        projector_source=written_source(projector, state) if projector else "",
        adapters=tuple(
            [replace(one, source=written_source(one.source, state)) for one in environment.adapters]
        ),
        is_named=bool(environment.model),
        speculation=environment.speculation_settings(written_source(draft, state) if draft else ""),
    )


def serving_process() -> ServingProcess:
    """This one, under a name of its own."""
    return ServingProcess(uuid4(), f"{socket.gethostname()}/{os.getpid()}")


class SiteModelChecks:
    """Implements inference.model_rows.checks.ModelChecks."""

    def __init__(self, environment: Environment, state: StateFolder) -> None:
        self._environment = environment
        self._state = state

    def check_sizes(self, *, engine: Mapping[str, Any], admission: Mapping[str, Any]) -> None:
        """By the ranges and the rules of the environment's own settings, of which these take the place."""
        for param, given in (("engine", engine), ("admission", admission)):
            for name in given:
                if name not in _FIELDS[param]:
                    shown = "".join(c if c.isprintable() else "?" for c in name[:_MAX_SHOWN_NAME])
                    known = ", ".join(_FIELDS[param])
                    raise _refused(f"{param}.{shown}", f"there is no such setting; there are {known}")
        try:
            model_environment(self._environment, engine=engine, admission=admission)
        except ValueError as problem:
            text = str(problem)
            named = _FIRST_WORD.match(text)
            param = "admission" if named is not None and named[0] in ADMISSION_FIELDS else "engine"
            raise _refused(
                param if named is None else f"{param}.{named[0]}", _FIELD_BEFORE.sub("", text)
            ) from None

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
            raise _refused(param, str(problem).removeprefix(f"{param}: ").rstrip(".")) from None


def _refused(param: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid '{param}': {problem}.", param=param)


def _is_special(path: Path) -> bool:
    """A pipe or a device, which would be waited for."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def make_model_checks() -> SiteModelChecks:
    """Named by the setting MODEL_CHECKS."""
    from django.conf import settings

    return SiteModelChecks(settings.ENVIRONMENT, settings.STATE)
