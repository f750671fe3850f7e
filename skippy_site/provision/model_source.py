"""Turns SKIPPY_MODEL into a file to load: nothing, a path, or a file on a Hugging Face hub.

Every way in which this fails is one line for the person who set it, before a server starts.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skippy_site.provision.default_model import ensure_default_model
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.progress import ReportedStep

if TYPE_CHECKING:
    from skippy_site.env import Environment
    from skippy_site.state import StateFolder

MODEL, PROJECTOR, DRAFT_MODEL = "SKIPPY_MODEL", "SKIPPY_MMPROJ", "SKIPPY_DRAFT_MODEL"
MAGIC = b"GGUF"
VERSIONS = (2, 3)  # what llama.cpp reads (gguf.h)
HUB_PREFIX = "hf:"
HUB_FORM = "hf:org/repo/file.gguf or hf:org/repo/file.gguf@revision"
_HUB_NAME = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>[^@\s]+\.gguf)(?:@(?P<revision>[\w./-]+))?", re.IGNORECASE
)
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.gguf$", re.IGNORECASE)


class ModelProblem(ProvisionProblem):
    """The model cannot be had; the message is one line that says why and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a repository on a hub; `revision` is a branch, a tag or a commit."""

    repo: str
    file: str
    revision: str

    @property
    def parts(self) -> tuple[str, ...]:
        """All files of a model that comes in several (`…-00001-of-00003.gguf`), the named one first."""
        split = _PART.fullmatch(self.file)
        if split is None:
            return (self.file,)
        total = int(split["total"])
        names = [f"{split['stem']}-{number:05d}-of-{total:05d}.gguf" for number in range(1, total + 1)]
        return tuple(sorted(names, key=lambda name: name != self.file))


def parse_hub_name(text: str, *, variable: str = MODEL) -> HubFile:
    """`hf:org/repo/file.gguf[@revision]`; raises ModelProblem, which names the variable, for anything
    else."""
    found = _HUB_NAME.fullmatch(text)
    if found is None or ".." in found["file"].split("/") or ".." in (found["revision"] or "").split("/"):
        raise ModelProblem(f"{variable}: {text!r} is not of the form {HUB_FORM}")
    return HubFile(found["repo"], found["file"], found["revision"] or "main")


def resolve_model(environment: Environment, state: StateFolder, report: Callable[[str], None]) -> Path:
    """The GGUF file to load, fetched first if it is not here yet (which may take long).

    `report` gets a line now and then while it takes. Raises ModelProblem.
    """
    given = environment.model
    if not given:
        try:
            return check_gguf(ensure_default_model(state, ReportedStep(report)))
        except ProvisionProblem as problem:
            raise ModelProblem(f"{problem} {problem.advice}") from None
    return resolve_source(given, MODEL, state, report)


def resolve_projector(
    environment: Environment, state: StateFolder, report: Callable[[str], None]
) -> Path | None:
    """The same for SKIPPY_MMPROJ; None where it is not set."""
    given = environment.mmproj
    return resolve_source(given, PROJECTOR, state, report) if given else None


def resolve_source(given: str, variable: str, state: StateFolder, report: Callable[[str], None]) -> Path:
    """The file that a path or an hf: name stands for, fetched first if it is not here yet. Raises
    ModelProblem, which names the `variable` that said so."""
    if given.startswith(HUB_PREFIX):
        from skippy_site.provision.hub_download import fetch_from_hub

        wanted = parse_hub_name(given, variable=variable)
        files = [fetch_from_hub(wanted, file, state.models / "hub", report) for file in wanted.parts]
        return check_gguf(files[0], variable=variable)
    return check_gguf(Path(given).expanduser().absolute(), variable=variable)


def check_gguf(file: Path, *, variable: str = MODEL) -> Path:
    """`file`, if it is a readable GGUF by its first bytes. Raises ModelProblem, which names the
    variable."""
    try:
        with file.open("rb") as opened:
            head = opened.read(8)
    except FileNotFoundError:
        raise ModelProblem(f"{variable}: there is no file {file}") from None
    except IsADirectoryError:
        raise ModelProblem(f"{variable}: {file} is a folder; name the .gguf file in it") from None
    except OSError as problem:
        raise ModelProblem(f"{variable}: {file} cannot be read: {problem.strerror}") from None
    if len(head) < 8 or head[:4] != MAGIC:
        raise ModelProblem(
            f"{variable}: {file} is not a GGUF file (llama.cpp's convert_hf_to_gguf.py makes one from "
            "other formats)"
        )
    (version,) = struct.unpack("<I", head[4:])
    if version not in VERSIONS:
        raise ModelProblem(f"{variable}: {file} is GGUF version {version}; versions 2 and 3 can be read")
    return file
