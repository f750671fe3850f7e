"""How sources of models are written down in rows, and where their files are.

A source is hf:org/repo/file.gguf, or a path; one that does not begin with a slash is looked for in the
models folder of the state folder, so that the folder can be moved with all that is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skippy_site.provision.default_model import original_file, rewritten_file
from skippy_site.provision.model_source import HUB_PREFIX
from skippy_site.state import StateFolder


def source_path(source: str, state: StateFolder) -> Path | None:
    """Where a source's file is; None for one on a hub."""
    if source.startswith(HUB_PREFIX):
        return None
    return state.models / Path(source).expanduser()


def written_source(given: str, state: StateFolder) -> str:
    """How a path of this machine, or a hub's name, is written down in a row."""
    if given.startswith(HUB_PREFIX):
        return given
    path = Path(given).expanduser().absolute()
    return str(path.relative_to(state.models)) if path.is_relative_to(state.models) else str(path)


def is_first_model_used(given: str, sources: Sequence[str], state: StateFolder) -> bool:
    """Whether what SKIPPY_MODEL says (empty: the default model) is to be found or fetched before the
    server starts: it will be the first model, or is one of those that there are, by their sources."""
    if not sources:
        return True
    files = [given] if given else [str(original_file(state)), str(rewritten_file(state))]
    return any(written_source(file, state) in sources for file in files)
