"""A real runner under an engine core that the test steps itself, on its own thread."""

from __future__ import annotations

from types import TracebackType

from inference.domain.adapters import AdapterSet
from inference.domain.admission import EventSink, Submission
from inference.domain.backend import HoldReason
from inference.domain.clock import SystemClock
from inference.domain.constraint import OutputConstraint
from inference.domain.events import Event
from inference.domain.media_run import MediaRun
from inference.domain.requests import GenerationRequest, SamplingParams
from inference.domain.signals import SignalRequest
from inference.domain.speculation import SpeculationRequest
from inference.engine.config import EngineConfig
from inference.engine.core import EngineCore
from inference.engine.llama import LlamaModel, LlamaRunner
from tests.unit.engine.scripted_engine_parts import FifoAdmission, RecordingSink

GREEDY = SamplingParams(temperature=0.0)


class SteppedEngine:
    """Use as a context manager; the context is freed at its end, the model is not."""

    def __init__(self, model: LlamaModel, config: EngineConfig, *, runner: LlamaRunner | None = None) -> None:
        self.model = model
        self.admission = FifoAdmission()
        self.runner = runner or LlamaRunner(model, config, owns_model=False)
        self.core = EngineCore(self.runner, config, self.admission, SystemClock(), self._deliver)
        self.submissions: dict[str, Submission] = {}

    def __enter__(self) -> SteppedEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.runner.close()

    def _deliver(self, events: list[tuple[EventSink, Event]]) -> None:
        for sink, event in events:
            assert isinstance(sink, RecordingSink)
            sink.events.append(event)

    def submit(
        self,
        name: str,
        prompt: str | tuple[int, ...],
        *,
        max_tokens: int = 16,
        sampling: SamplingParams = GREEDY,
        ignore_eos: bool = False,
        min_tokens: int = 0,
        num_top_logprobs: int | None = None,
        namespace: str = "",
        signals: SignalRequest | None = None,
        constraint: OutputConstraint | None = None,
        media: tuple[MediaRun, ...] = (),
        adapters: AdapterSet = (),
        speculation: SpeculationRequest | None = None,
        group: str = "",
        num_prompt_logprobs: int | None = None,
    ) -> RecordingSink:
        if isinstance(prompt, str):
            prompt = tuple(self.model.tokenizer.tokenize(prompt, add_special=True, parse_special=True))
        sink = RecordingSink()
        request = GenerationRequest(
            name,
            prompt,
            max_tokens,
            sampling,
            ignore_eos,
            min_tokens,
            num_top_logprobs,
            cache_namespace=namespace,
            signals=signals,
            constraint=constraint,
            media=media,
            adapters=adapters,
            speculation=speculation,
            sibling_group=group,
            num_prompt_logprobs=num_prompt_logprobs,
        )
        submission = Submission(request, sink, 0.0)
        self.submissions[name] = submission
        self.admission.submit(submission)
        return sink

    def cancel(self, name: str) -> None:
        self.core.inbox.cancel(self.submissions[name])

    def hold(self, name: str) -> None:
        self.core.inbox.hold(self.submissions[name], HoldReason.HOOK)

    def inject(self, name: str, *token_ids: int) -> None:
        self.core.inbox.inject(self.submissions[name], token_ids)

    def resume(self, name: str) -> None:
        self.core.inbox.resume(self.submissions[name], HoldReason.HOOK)

    def run(self, max_steps: int = 5000) -> None:
        for _ in range(max_steps):
            if not self.core.step():
                return
        raise AssertionError(f"still busy: {self.core!r}")

    def num_cells_in_use(self) -> int:
        """As llama.cpp itself counts: positions of all running sequences."""
        context = self.runner._context
        return sum(context.last_position(one.sequence_id) + 1 for one in self.core._scheduler.sequences)

    def lengths(self) -> dict[int, int]:
        """Cells of each KV sequence that has some, as llama.cpp knows it."""
        context = self.runner._context
        positions = {one: context.last_position(one) for one in range(context._num_sequences)}
        return {one: position + 1 for one, position in positions.items() if position >= 0}

    def check(self) -> None:
        self.core.check_integrity()
        self.admission.check_integrity()
        ledger = self.core._memory._cache._ledger
        assert self.lengths() == {one: length for one, length in ledger._lengths.items() if length}

    def check_all_free(self) -> None:
        """Nothing is held but by the cache, and nothing at all once that is emptied."""
        self.check()
        statistics = self.core.statistics(is_alive=True)
        assert statistics.is_idle
        assert statistics.num_cells_used == self.num_cells_in_use() == 0
        assert self.admission.num_held == 0
        assert not self.runner._samplers
        assert not self.runner._watched
        assert not self.runner._constrained
        while self.core._memory.evict_one():
            pass
        assert not self.lengths()


def chat(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
