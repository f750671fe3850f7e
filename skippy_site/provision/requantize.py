"""Rewrites a model's weights in another quantization; a program of its own, because llama.cpp may abort.

    python -m skippy_site.provision.requantize SOURCE.gguf TARGET.gguf [Q8_0|Q4_0|Q4_1]

The target appears whole or not at all.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# By their numbers in llama.h.
FILE_TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7}


def requantize(source: Path, target: Path, file_type: str) -> int:
    """llama.cpp's own return code: 0 is success."""
    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    wanted = llama_cpp.llama_model_quantize_default_params()
    wanted.ftype = FILE_TYPES[file_type]
    wanted.allow_requantize = True
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        code = int(
            llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(draft), ctypes.byref(wanted))
        )
        if code == 0:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return code


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(requantize(Path(arguments[0]), Path(arguments[1]), (arguments[2:] or ["Q8_0"])[0]))
