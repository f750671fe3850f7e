"""LoRA adapters in memory, beside the weights of the model that they change."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import llama_cpp

from inference.domain.adapters import AdapterSet
from inference.engine.llama.library import log_bridge
from inference.engine.llama.memory_use import Buffers
from inference.engine.load_error import ModelLoadError


class LlamaAdapters:
    """The adapters of one model, by name. llama.cpp frees them with the model, and a context's graph has
    room for those that were there when it was made: load them after the model and before its contexts.

    A file that is no adapter for the model can end the process: see adapter_trial.py.
    """

    def __init__(self, pointers: Mapping[str, Any] | None = None, buffers: Buffers = ()) -> None:
        self._pointers = dict(pointers or {})
        self.buffers = buffers

    @classmethod
    def load(cls, model_pointer: int, files: Mapping[str, Path]) -> LlamaAdapters:
        """Raises ModelLoadError, which names the adapter. `model_pointer` is a `llama_model`."""
        pointers: dict[str, Any] = {}
        with log_bridge.buffers() as buffers:
            for name, path in files.items():
                pointer: Any = llama_cpp.llama_adapter_lora_init(model_pointer, str(path).encode())
                if not pointer:
                    raise ModelLoadError(
                        f"llama.cpp cannot use {path.name} as the adapter {name!r} of this model: it is "
                        "damaged, no LoRA adapter, or one of another model (see the log)."
                    )
                if llama_cpp.llama_adapter_get_alora_n_invocation_tokens(pointer):
                    raise ModelLoadError(
                        f"The adapter {name!r} ({path.name}) is an activated LoRA, which holds from some "
                        "token of the prompt on only; such ones are not supported."
                    )
                pointers[name] = pointer
        return cls(pointers, buffers)

    def check(self, adapters: AdapterSet) -> None:
        """Raises ValueError where one of them is not there."""
        for one in adapters:
            if one.name not in self._pointers:
                raise ValueError(f"there is no adapter {one.name!r}")

    def apply(self, context_pointer: Any, adapters: AdapterSet) -> None:
        """Compute with these, and no others, from the next batch of the context on, which then takes some
        ms longer: its graph is laid out anew."""
        self.check(adapters)
        count = len(adapters)
        pointers = (llama_cpp.llama_adapter_lora_p_ctypes * count)(
            *[self._pointers[one.name] for one in adapters]
        )
        scales = (ctypes.c_float * count)(*[one.scale for one in adapters])
        status: int = llama_cpp.llama_set_adapters_lora(context_pointer, pointers, count, scales)
        if status:
            raise RuntimeError(f"llama.cpp could not set {count} adapters: {status}")

    def __repr__(self) -> str:
        return f"<LlamaAdapters {', '.join(self._pointers) or 'none'}>"
