"""An engine whose test sees the logits behind every token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaRunner
from inference.engine.plan import StepPlan, StepResult
from tests.model.stepped_engine import SteppedEngine

Row = NDArray[np.float32]


class WatchedRunner(LlamaRunner):
    """Keeps the logits from which each token was drawn, by request: one row for each draw.

    They are read after the draw, so only requests that change no logits (greedy ones without
    penalties, bias or banned tokens) show the model's own.
    """

    def __init__(self, model: LlamaModel, config: EngineConfig) -> None:
        self.logits: dict[str, list[Row]] = {}
        super().__init__(model, config, owns_model=False)

    def run(self, plan: StepPlan) -> StepResult:
        result = super().run(plan)
        if plan.outputs and result.token_ids:
            rows = self._context.logits(len(plan.outputs))
            for row, sequence in zip(rows, plan.outputs, strict=True):
                self.logits.setdefault(sequence.request.request_id, []).append(row.copy())
        return result


class WatchedEngine(SteppedEngine):
    """A SteppedEngine over a WatchedRunner."""

    def __init__(self, model: LlamaModel, config: EngineConfig) -> None:
        super().__init__(model, config, runner=WatchedRunner(model, config))

    @property
    def logits(self) -> dict[str, list[Row]]:
        assert isinstance(self.runner, WatchedRunner)
        return self.runner.logits
