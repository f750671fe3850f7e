"""Does an adapter work with a model? Asked in a process of its own, because a no may be the end of it.

llama.cpp reads an adapter's metadata as of the types that they should have and calls abort() where they are
not, and some shapes and types of tensors it only meets when it computes. So before a server loads an adapter,
another process has loaded it beside the same model and computed two tokens.

Run as `python -m inference.engine.llama.adapter_trial MODEL ADAPTER NAME`.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import llama_cpp

from inference.domain.adapters import AppliedAdapter
from inference.engine.llama.adapters import LlamaAdapters
from inference.engine.llama.library import start_backend
from inference.engine.llama.trial_process import refuse, run_trial
from inference.engine.load_error import ModelLoadError

_NUM_CELLS = 256


def try_adapter(name: str, path: Path, model_path: Path) -> None:
    """Raises ModelLoadError where the adapter cannot be used with the model. Takes as long as reading all of
    the model's weights once, on the CPU, beside whatever else has mapped them."""
    run_trial(
        __spec__.name,
        [str(model_path.absolute()), str(path.absolute()), name],
        subject=f"The adapter {name!r} ({path.name})",
    )


def main(arguments: list[str]) -> int:
    model_path, adapter_path, name = arguments
    start_backend()
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    # Weights stay mapped, as in the server; packing them anew would take their memory once more.
    params.use_extra_bufts = False
    model = llama_cpp.llama_model_load_from_file(model_path.encode(), params)
    if not model:
        return refuse(f"llama.cpp cannot load {Path(model_path).name}.")
    try:
        adapters = LlamaAdapters.load(model, {name: Path(adapter_path)})
    except ModelLoadError as problem:
        return refuse(str(problem))
    context_params = llama_cpp.llama_context_default_params()
    context_params.n_ctx = context_params.n_batch = context_params.n_ubatch = _NUM_CELLS
    context_params.n_threads = context_params.n_threads_batch = len(os.sched_getaffinity(0))
    context = llama_cpp.llama_init_from_model(model, context_params)
    if not context:
        return refuse(f"llama.cpp cannot make a context for {Path(model_path).name}.")
    adapters.apply(context, (AppliedAdapter(name, 1.0),))
    tokens = (llama_cpp.llama_token * 2)(1, 2)
    status: int = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, 2))
    if status:
        return refuse(f"The adapter {name!r} ({Path(adapter_path).name}) cannot be computed ({status}).")
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    sys.exit(main(sys.argv[1:]))
