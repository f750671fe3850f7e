"""Does a projector work with a model? Asked in a process of its own, because a no may be the end of it.

libmtmd trusts its files: where a tensor is missing it reads address 0, and where a shape is not as it
expects it calls abort(), some of that only when the first picture is encoded. So before a server
loads a projector, another process has read a picture and a sound with it.

Run as `python -m inference.engine.llama.projector_trial PROJECTOR MODEL THREADS MAX_TOKENS_AT_ONCE`.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from inference.domain.errors import SkippyError
from inference.domain.media import MediaKind, Picture, Sound, UnreadableMedia
from inference.engine.config import EngineConfig
from inference.engine.hardware import HardwareConfig
from inference.engine.llama.library import start_backend
from inference.engine.llama.lifetime import NativeLifetime
from inference.engine.llama.media import LlamaProjector
from inference.engine.llama.parameters import probe_params
from inference.engine.llama.trial_process import refuse, run_trial
from inference.engine.load_error import ModelLoadError


def try_projector(path: Path, model_path: Path, config: EngineConfig) -> None:
    """Raises ModelLoadError where the projector cannot be used with the model; takes as long as loading
    it and reading a picture."""
    numbers = [str(config.effective_media_threads), str(config.max_tokens_at_once)]
    run_trial(
        __spec__.name,
        [str(path.absolute()), str(model_path.absolute()), *numbers],
        subject=f"The projector {path.name}",
    )


@dataclass(frozen=True, slots=True)
class DescribedModel:
    """A model without its weights: a projector asks it for its sizes and its vocabulary only."""

    pointer: Any
    path: Path
    lifetime: NativeLifetime


def main(arguments: list[str]) -> int:
    projector_path, model_path = map(Path, arguments[:2])
    num_threads, max_tokens_at_once = map(int, arguments[2:])
    start_backend()
    pointer = llama_cpp.llama_model_load_from_file(str(model_path).encode(), probe_params())
    if not pointer:
        return refuse(f"llama.cpp cannot load {model_path.name}.")
    config = EngineConfig(
        num_lanes=1,
        num_media_threads=num_threads,
        max_batch_tokens=max(32, max_tokens_at_once),
        max_ubatch_tokens=max_tokens_at_once,
        hardware=HardwareConfig(gpu_layers=0),
    )
    model = DescribedModel(pointer, model_path, NativeLifetime(lambda: llama_cpp.llama_model_free(pointer)))
    try:
        projector = LlamaProjector.load(projector_path, model, config)
        for item in samples(projector):
            projector.lay_out(item)
            projector.encode(item)
    except ModelLoadError as problem:
        return refuse(str(problem))
    except (SkippyError, UnreadableMedia) as problem:
        return refuse(f"The projector {projector_path.name} cannot be used: {problem}.")
    return 0


def samples(projector: LlamaProjector) -> list[Picture | Sound]:
    """One of each kind that it says it can read."""
    made: list[Picture | Sound] = []
    if MediaKind.IMAGE in projector.kinds:
        made.append(Picture(64, 48, bytes(range(256)) * 36, b"picture"))
    if MediaKind.AUDIO in projector.kinds:
        samples = np.sin(np.arange(projector.sound_rate) / 20).astype(np.float32)
        made.append(Sound(samples.tobytes(), projector.sound_rate, b"sound"))
    return made


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    sys.exit(main(sys.argv[1:]))
