"""The child that tries a llama.cpp build out; if the build is deadly, only this process dies.

    python -m skippy_site.provision.decode_trial MODEL.gguf

Decodes the same 96 tokens twice: in one batch (the kernels for many rows, the ones that a bad build
dies in), and 95 in a batch followed by one alone (the kernels for one row). Both must predict alike.
Prints one line of JSON: what the build says of itself, or what is wrong.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any

NUM_PROMPT_TOKENS = 96
FIRST_TOKEN = 4  # ids below may be special ones
LEAST_CORRELATION = 0.98  # 0.9999 was seen: rounding may differ, numbers may not


class TrialFailed(Exception):
    """The build runs but does not do its work."""


def main(path: str) -> int:
    # Before the library starts: no debugger is to be attached to a failing child.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    try:
        answer: dict[str, object] = {"ok": True, "system": try_build(path)}
    except TrialFailed as failure:
        answer = {"ok": False, "reason": str(failure)}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0 if answer["ok"] else 1


def try_build(path: str) -> str:
    """llama.cpp's description of the build. Raises TrialFailed; a deadly build ends the process."""
    import llama_cpp

    # Its own callback mistakes llama.cpp's levels; the trial's answer is its only output.
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise TrialFailed("the model could not be loaded")
    wanted = llama_cpp.llama_context_default_params()
    wanted.n_ctx, wanted.n_batch, wanted.n_threads, wanted.n_threads_batch = 256, 128, 2, 2
    context = llama_cpp.llama_init_from_model(model, wanted)
    if not context:
        raise TrialFailed("no context could be made")
    num_vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    span = min(num_vocabulary - FIRST_TOKEN, 200)
    prompt = [FIRST_TOKEN + (7 * index) % span for index in range(NUM_PROMPT_TOKENS)]
    together = _decode(llama_cpp, context, prompt, num_vocabulary)
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
    _decode(llama_cpp, context, prompt[:-1], num_vocabulary)
    alone = _decode(llama_cpp, context, prompt[-1:], num_vocabulary)
    likeness = correlation(together, alone)
    if likeness < LEAST_CORRELATION:
        raise TrialFailed(f"one row and many rows do not agree (correlation {likeness:.3f})")
    system: str = llama_cpp.llama_print_system_info().decode(errors="replace")
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return system


def _decode(llama_cpp: Any, context: Any, tokens: Sequence[int], num_vocabulary: int) -> list[float]:
    held = (llama_cpp.llama_token * len(tokens))(*tokens)  # the batch only points at it
    code = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(held, len(tokens)))
    if code != 0:
        raise TrialFailed(f"llama_decode returned {code}")
    values: list[float] = llama_cpp.llama_get_logits_ith(context, -1)[:num_vocabulary]
    if not all(math.isfinite(value) for value in values) or max(values) == min(values):
        raise TrialFailed("the logits are not sane numbers")
    return values


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's coefficient."""
    mean_1, mean_2 = math.fsum(first) / len(first), math.fsum(second) / len(second)
    products = math.fsum((x - mean_1) * (y - mean_2) for x, y in zip(first, second, strict=True))
    squares_1 = math.fsum((x - mean_1) ** 2 for x in first)
    squares_2 = math.fsum((y - mean_2) ** 2 for y in second)
    return products / math.sqrt(squares_1 * squares_2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
