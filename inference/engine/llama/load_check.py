"""Whether files can be loaded, asked before they are: what each says of itself, and no weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import llama_cpp

from inference.engine.config import EngineConfig
from inference.engine.drafting.draft_model import draft_config
from inference.engine.hardware import ComputeDevice, LoadMode
from inference.engine.llama.devices import list_gpus
from inference.engine.llama.library import start_backend
from inference.engine.llama.memory import available_bytes
from inference.engine.llama.memory_use import read_shape
from inference.engine.llama.metadata import read_metadata
from inference.engine.llama.parameters import probe_params
from inference.engine.load_error import ModelLoadError
from inference.engine.load_order import ModelFiles
from inference.engine.memory_plan import ModelShape, check_it_fits, check_they_fit, plan_memory
from inference.engine.pooling import read_pooling

_MAGIC = b"GGUF"


def check_file(path: Path) -> None:
    """Raise ModelLoadError unless it is there, can be read, and says that it is a GGUF file."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError:
        raise ModelLoadError(f"There is no model file at {path}.") from None
    except IsADirectoryError:
        raise ModelLoadError(f"{path} is a folder; a model is one .gguf file.") from None
    except OSError as error:
        raise ModelLoadError(f"The model file {path} cannot be read: {error.strerror}.") from None
    if magic != _MAGIC:
        raise ModelLoadError(f"{path} is not a GGUF file.")


def check_before_loading(path: Path, config: EngineConfig, gpus: Sequence[ComputeDevice]) -> None:
    """Whether weights that must lie in memory will fit it, on each device; raises ModelDoesNotFit. Those
    that are only mapped are checked afterwards, with the cells: asking the file twice costs most of such a
    load."""
    hardware = config.hardware
    must_fit = hardware.load_mode in (LoadMode.READ, LoadMode.MLOCK)
    if not must_fit and not hardware.gpus_in_use(gpus):
        return
    shape = probe_shape(path)
    check_it_fits(shape, config, plan_memory(shape, config, gpus, available_bytes()))


def check_beside_others(files: ModelFiles, config: EngineConfig, others_bytes: int) -> None:
    """Raise ModelDoesNotFit where loading a model, with all that belongs to it, would push others out of
    memory; `others_bytes` of what counts as available are theirs. Raises ModelLoadError where a file cannot
    be used."""
    with _probed(files.model) as pointer:
        parts = [(read_shape(pointer, files.model), config)]
        can_generate = read_pooling(read_metadata(pointer)).can_generate
    extra_bytes = sum([_size_of(path) for path in files.adapters.values()])
    # A model that only embeds has none of these.
    if can_generate and files.draft is not None:
        parts.append((probe_shape(files.draft), draft_config(config)))
    if can_generate and files.projector is not None:
        extra_bytes += _size_of(files.projector)
    if can_generate and config.has_prefix_cache:
        # It fills up in hours of work, when nobody asks any more.
        extra_bytes += config.host_cache_bytes
    available = available_bytes()
    free_bytes = None if available is None else available - others_bytes
    check_they_fit(parts, list_gpus(), free_bytes, extra_bytes=extra_bytes)


def probe_shape(path: Path) -> ModelShape:
    """The sizes of a model, without reading its weights; raises ModelLoadError."""
    with _probed(path) as pointer:
        return read_shape(pointer, path)


@contextmanager
def _probed(path: Path) -> Iterator[int]:
    """A `llama_model` without weights."""
    check_file(path)
    start_backend()
    pointer: int | None = llama_cpp.llama_model_load_from_file(str(path).encode(), probe_params())
    if not pointer:
        raise ModelLoadError(cannot_load(path))
    try:
        yield pointer
    finally:
        llama_cpp.llama_model_free(pointer)


def cannot_load(path: Path) -> str:
    """What the operator is told of a file that llama.cpp does not take."""
    return f"llama.cpp cannot load {path.name}: the file is damaged or of an unknown kind (see the log)."


def _size_of(path: Path) -> int:
    """Of a file that is loaded whole; one that is not there is told of by whoever loads it."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
