"""The steps between the model's logits and the next token, and the order that they are taken in."""

from __future__ import annotations

from enum import Enum


class SamplerStage(Enum):
    """A step that changes logits or takes tokens away, under llama.cpp's name for it."""

    PENALTIES = "penalties"
    DRY = "dry"
    TOP_N_SIGMA = "top_n_sigma"
    TOP_K = "top_k"
    TYPICAL_P = "typical_p"
    TOP_P = "top_p"
    MIN_P = "min_p"
    XTC = "xtc"
    TEMPERATURE = "temperature"


# llama.cpp's order (common/common.h), which is that of the members above.
DEFAULT_STAGES = tuple(SamplerStage)
DEFAULT_SEQUENCE_BREAKERS = ("\n", ":", '"', "*")
