"""A GGUF file in memory: its weights, its vocabulary and what it says about itself."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import llama_cpp

from inference.domain.model import ModelDescription
from inference.engine.config import EngineConfig
from inference.engine.hardware import ComputeDevice
from inference.engine.llama.adapter_trial import try_adapter
from inference.engine.llama.adapters import LlamaAdapters
from inference.engine.llama.devices import list_devices, list_gpus
from inference.engine.llama.library import build_name, has_unsafe_amx, log_bridge
from inference.engine.llama.lifetime import NativeLifetime
from inference.engine.llama.load_check import cannot_load, check_before_loading, check_file
from inference.engine.llama.memory import available_bytes
from inference.engine.llama.memory_use import Buffers, read_shape, used_memory
from inference.engine.llama.metadata import read_metadata
from inference.engine.llama.parameters import model_params
from inference.engine.llama.tokenizer import LlamaTokenizer
from inference.engine.load_error import ModelLoadError
from inference.engine.memory_plan import DeviceMemory, check_it_fits, place_layers, plan_memory
from inference.engine.pooling import EmbeddingSizes, read_pooling

logger = logging.getLogger(__name__)

_TEMPLATE_KEY = "tokenizer.chat_template"
_SAMPLING_PREFIX = "general.sampling."
# GGUF's names of sampling parameters where ours differ (llama-arch.cpp, LLM_KV_GENERAL_SAMPLING_…).
_SAMPLING_NAMES = {
    "temp": "temperature",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "repeat_last_n",
}
# The fingerprint reads this many blocks of the file, evenly spread: fine-tunes differ everywhere.
_NUM_SAMPLED_BLOCKS = 64
_SAMPLED_BLOCK_BYTES = 4096


class LlamaModel:
    """Owns a `llama_model`. Weights and vocabulary are read-only, so contexts and tokenizers of
    several threads may use it; `close()` frees it, after its contexts."""

    def __init__(
        self,
        pointer: int,
        path: Path,
        config: EngineConfig,
        *,
        gpus: Sequence[ComputeDevice] = (),
        buffers: Buffers = (),
    ) -> None:
        self.pointer = pointer
        self.path = path
        self.buffers = buffers
        self.adapters = LlamaAdapters()
        self._config = config
        self._shape = read_shape(pointer, path)
        # With the memory that was free when it was loaded.
        self._placement = place_layers(self._shape.num_layers, config, gpus)
        self.lifetime = NativeLifetime(lambda: llama_cpp.llama_model_free(pointer))
        self.metadata = read_metadata(pointer)
        self.size_bytes: int = llama_cpp.llama_model_size(pointer)
        self.num_parameters: int = llama_cpp.llama_model_n_params(pointer)
        self.trained_context: int = llama_cpp.llama_model_n_ctx_train(pointer)
        self.pooling = read_pooling(self.metadata)
        self._before_close: list[Callable[[], None]] = []
        self.window_tokens: int = llama_cpp.llama_model_n_swa(pointer)
        self.tokenizer = LlamaTokenizer(llama_cpp.llama_model_get_vocab(pointer), self.lifetime)
        self.fingerprint = _fingerprint(path)
        self._created = int(path.stat().st_mtime)

    @classmethod
    def load(cls, path: Path, config: EngineConfig) -> LlamaModel:
        """Read the file; takes from a second to minutes and belongs on a worker thread.

        Raises ModelLoadError: no such file, not a GGUF, of a kind that llama.cpp does not know or
        that does not generate text, settings that this machine cannot follow, or more than the memory
        of a device holds together with the KV cells.
        """
        check_file(path)
        logger.info("Devices: %s", "; ".join(map(str, list_devices())))
        gpus = list_gpus()
        config.hardware.check_devices(gpus)
        check_before_loading(path, config, gpus)
        if has_unsafe_amx():
            logger.warning("This build of llama.cpp uses AMX, which may crash: its buffers are not used")
        params = model_params(config.hardware, gpus)
        with log_bridge.buffers() as buffers:
            pointer: int | None = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not pointer:
            raise ModelLoadError(cannot_load(path))
        try:
            _check_kind(pointer, path)
            model = cls(pointer, path, config, gpus=gpus, buffers=buffers)
            if model.pooling.can_generate:
                model.plan_context(config)
        except BaseException:
            llama_cpp.llama_model_free(pointer)
            raise
        return model

    def load_adapters(self, files: Mapping[str, Path]) -> None:
        """Read LoRA adapters by their names, before a context is made; each is tried in another process
        first, which reads the weights once. Raises ModelLoadError, which names the adapter."""
        for name, path in files.items():
            if not path.is_file():
                raise ModelLoadError(f"There is no file {path} for the adapter {name!r}.")
            try_adapter(name, path, self.path)
        self.adapters = LlamaAdapters.load(self.pointer, files)
        self.buffers = [*self.buffers, *self.adapters.buffers]

    def plan_context(self, config: EngineConfig) -> tuple[DeviceMemory, ...]:
        """What it takes with a context of these sizes. Raises ModelLoadError where KV cells and compute
        buffers do not fit beside the weights, or cannot be of the wanted types."""
        shape = self._shape
        config.hardware.check_heads(key_length=shape.key_length, value_length=shape.value_length)
        plans = plan_memory(shape, config, list_gpus(), available_bytes(), placement=self._placement)
        check_it_fits(shape, config, plans, is_loaded=True)
        return plans

    def embedding_sizes(self, config: EngineConfig) -> EmbeddingSizes:
        """Of a context that embeds, beside the one that generates or alone."""
        width: int = llama_cpp.llama_model_n_embd_out(self.pointer)
        return self.pooling.sizes(
            config,
            width=width,
            trained_context=self.trained_context,
            pair_marks=self.tokenizer.pair_marks,
        )

    def check_embedding_fits(self, config: EngineConfig, sizes: EmbeddingSizes) -> None:
        """Raises ModelLoadError where there is no memory for a context that embeds: its cells, and the
        logits that llama.cpp makes room for, in the graph and in its output."""
        hardware, shape = config.hardware, self._shape
        cell_bytes = shape.kv_bytes_per_cell(hardware.key_type, hardware.value_type) if sizes.can_part else 0
        needed_bytes = sizes.num_cells * cell_bytes + 8 * sizes.max_batch_tokens * shape.num_vocabulary
        free_bytes = available_bytes()
        if free_bytes is not None and needed_bytes > free_bytes:
            raise ModelLoadError(
                f"Embeddings of {self.path.name} need {needed_bytes / 1e6:.0f} MB and {free_bytes / 1e6:.0f} "
                "are free; a shorter longest text (SKIPPY_EMBEDDING_TOKENS) needs less."
            )

    def used_memory(self) -> tuple[DeviceMemory, ...]:
        """What its weights take, by device."""
        return used_memory(self.buffers, list_gpus(), available_bytes())

    def description(self, model_id: str) -> ModelDescription:
        """What the rest of the service sees of this model, under the name `model_id`."""
        num_cells = self._config.num_cells
        max_request_tokens = min(num_cells, self.trained_context or num_cells)
        if not self.pooling.can_generate:
            max_request_tokens = self.embedding_sizes(self._config).description.max_tokens
        return ModelDescription(
            id=model_id,
            created=self._created,
            trained_context=self.trained_context,
            num_cells=num_cells,
            max_request_tokens=max_request_tokens,
            num_vocabulary=self.tokenizer.num_tokens,
            chat_templates=_chat_templates(self.metadata),
            bos_text=self.tokenizer.bos_text,
            eos_text=self.tokenizer.eos_text,
            fingerprint=self.fingerprint,
            size_bytes=self.size_bytes,
            num_parameters=self.num_parameters,
            sampling_defaults=_sampling_defaults(self.metadata),
            can_generate=self.pooling.can_generate,
        )

    def before_close(self, call: Callable[[], None]) -> None:
        """Have `call` called when the model is to be freed, on whichever thread frees it, to end what still
        uses it there: the weights wait for that."""
        self._before_close.append(call)

    def close(self) -> None:
        """Free the weights, once nobody tokenizes or embeds any more. Later calls do nothing."""
        while self._before_close:
            self._before_close.pop()()
        self.lifetime.close()

    @property
    def is_closed(self) -> bool:
        return self.lifetime.is_closed

    def __repr__(self) -> str:
        return f"<LlamaModel {self.path.name}, {self.size_bytes / 1e6:.0f} MB>"


def _check_kind(pointer: int, path: Path) -> None:
    # Translators need their encoder run first, and diffusion models do not go token by token.
    is_translator = llama_cpp.llama_model_has_decoder(pointer) and llama_cpp.llama_model_has_encoder(pointer)
    if is_translator or llama_cpp.llama_model_is_diffusion(pointer):
        raise ModelLoadError(
            f"{path.name} is neither a model that generates text token by token nor one that embeds it."
        )


def _chat_templates(metadata: dict[str, str]) -> dict[str, str]:
    templates = {}
    for key, source in metadata.items():
        if key == _TEMPLATE_KEY:
            templates["default"] = source
        elif key.startswith(f"{_TEMPLATE_KEY}."):
            templates[key.removeprefix(f"{_TEMPLATE_KEY}.")] = source
    return templates


def _sampling_defaults(metadata: dict[str, str]) -> dict[str, float]:
    defaults = {}
    for key, text in metadata.items():
        if key.startswith(_SAMPLING_PREFIX):
            name = key.removeprefix(_SAMPLING_PREFIX)
            try:
                defaults[_SAMPLING_NAMES.get(name, name)] = float(text)
            except ValueError:
                continue  # general.sampling.sequence is a list of names
    return defaults


def _fingerprint(path: Path) -> str:
    """Changes with the file or the build of llama.cpp; the same on every machine."""
    size = path.stat().st_size
    digest = hashlib.sha256(f"{build_name()}/{size}".encode())
    with path.open("rb") as file:
        for index in range(_NUM_SAMPLED_BLOCKS):
            file.seek(index * max(size - _SAMPLED_BLOCK_BYTES, 0) // (_NUM_SAMPLED_BLOCKS - 1))
            digest.update(file.read(_SAMPLED_BLOCK_BYTES))
    return f"fp_{digest.hexdigest()[:10]}"
