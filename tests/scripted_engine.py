"""An engine whose every event a test decides: the services and doors around it are the real ones."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from inference.admission.controller import AdmissionController
from inference.domain.backend import HoldReason, Newcomer
from inference.domain.constraint import (
    ConstraintRefused,
    ConstraintSpec,
    ConstraintState,
    OutputConstraint,
)
from inference.domain.embeddings import EmbeddingBackend
from inference.domain.errors import ServerOverloaded, ServiceUnavailable, SkippyError
from inference.domain.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Injected,
    PromptScores,
    Signals,
    Started,
    TokenBatch,
)
from inference.domain.injection import InjectionRefusal
from inference.domain.logprobs import TokenLogprobs
from inference.domain.media import MediaProjector
from inference.domain.model import ModelDescription
from inference.domain.model_settings import ModelSettings
from inference.domain.rejection_reason import RejectionReason
from inference.domain.requests import GenerationRequest
from inference.domain.signals import SignalWindow, TokenSignal
from inference.domain.timings import Timings
from inference.domain.tokenizer import InfillTokens
from inference.engine.config import EngineConfig
from inference.engine.lanes import LaneStatistics
from inference.engine.load_order import LoadOrder, ModelFiles
from inference.engine.stats import EngineStatistics
from inference.hosting.workshop import ModelSizes

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class ByteTokenizer:
    """One token a byte, and three control tokens."""

    control_texts: Mapping[int, str] = {256: "<|im_start|>", 257: "<|im_end|>", 258: "<|endoftext|>"}
    special_texts: Sequence[str] = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
    max_piece_bytes = 1
    num_tokens = 259
    pieces: Sequence[bytes] = tuple([bytes([i]) for i in range(256)] + [b"", b"", b""])
    infill: InfillTokens | None = None

    def __init__(self) -> None:
        self.num_calls = 0

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        self.num_calls += 1
        ids: list[int] = []
        rest = text
        while rest:
            special = next((s for s in self.special_texts if rest.startswith(s)), None)
            if parse_special and special is not None:
                ids.append(256 + list(self.special_texts).index(special))
                rest = rest[len(special) :]
            else:
                ids.extend(rest[0].encode())
                rest = rest[1:]
        return ids

    def is_end_of_generation(self, token_id: int) -> bool:
        return token_id in (257, 258)


class AnyConstraint:
    """A constraint that forbids nothing."""

    def begin(self) -> ConstraintState:
        raise NotImplementedError


class ScriptedCompiler:
    """Remembers what it was to compile; refuses with `refusal` where there is one."""

    def __init__(self) -> None:
        self.specs: list[ConstraintSpec] = []
        self.refusal: str | None = None

    def compile(self, spec: ConstraintSpec) -> OutputConstraint:
        self.specs.append(spec)
        if self.refusal is not None:
            raise ConstraintRefused(self.refusal)
        return AnyConstraint()


class ScriptedHandle:
    """A handle that a test feeds. What is said behind signals that hold it comes when it is resumed."""

    def __init__(self, request: GenerationRequest, deadline_ts: float | None) -> None:
        self.request = request
        self.deadline_ts = deadline_ts
        self.is_cancelled = False
        self.completed: list[Timings] = []
        self.holds: set[HoldReason] = set()
        self.injections: list[tuple[int, ...]] = []
        self.injection_refusal: InjectionRefusal | None = None
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        # What is still to come; while it stands still for signals, the token of these is first, or was taken.
        self._later: deque[Event] = deque()
        self._stands_still = False
        self._has_token = False
        self._on_released: list[Callable[[], None]] = []
        self._is_released = False
        self.release_on_cancel = True

    def start(self) -> ScriptedHandle:
        return self._add(Started(at_ts=1001.0))

    def _add(self, event: Event) -> ScriptedHandle:
        self._later.append(event)
        self._go_on()
        return self

    def _go_on(self) -> None:
        while self._later and not self._stands_still:
            event = self._later.popleft()
            self._events.put_nowait(event)
            if isinstance(event, Finished | Failed):
                self.release()
            if isinstance(event, Signals) and event.is_held:
                self._stands_still = self._has_token = True
                self.holds.add(HoldReason.HOOK)

    def signal(
        self,
        signal: TokenSignal | SignalWindow,
        token: str,
        *,
        num_decoded: int = 1,
        is_held: bool = True,
        others: tuple[SignalWindow, ...] = (),
    ) -> ScriptedHandle:
        """Tell how sure it is. `token` was drawn with that: it comes, or is thrown away, later."""
        self._later.append(Signals(signal, num_decoded, is_held, 1001.8, others))
        return self.say(token)

    def say(self, text: str, *, num_drafted: int = 0, num_accepted: int = 0) -> ScriptedHandle:
        return self.say_bytes(text.encode(), num_drafted=num_drafted, num_accepted=num_accepted)

    def say_bytes(self, data: bytes, *, num_drafted: int = 0, num_accepted: int = 0) -> ScriptedHandle:
        """Also parts of characters."""
        token_ids = tuple(data)
        logprobs = tuple(map(self._logprobs, token_ids)) if self.request.num_top_logprobs is not None else ()
        return self._add(TokenBatch(token_ids, 1002.0, logprobs, num_drafted, num_accepted))

    def _logprobs(self, token_id: int) -> TokenLogprobs:
        """Each byte is as likely as it says; instead of it, the answer might have ended."""
        top = ((token_id, -token_id / 1000), (257, -9.0), (258, -10.0))
        return TokenLogprobs(-token_id / 1000, top[: self.request.num_top_logprobs])

    def score_prompt(self, *sizes: int) -> ScriptedHandle:
        """Scores of the prompt's tokens, in batches of these sizes and one for the rest."""
        scores = [self._logprobs(token_id) for token_id in self.request.prompt_token_ids[1:]]
        for size in (*sizes, len(scores)):
            batch, scores = scores[:size], scores[size:]
            if batch:
                self._add(PromptScores(tuple(batch), 1001.5))
        return self

    def finish(self, reason: FinishReason = FinishReason.STOP) -> ScriptedHandle:
        return self._add(Finished(reason, at_ts=1003.0))

    def fail(self, error: SkippyError) -> ScriptedHandle:
        """At once, also while it stands still."""
        self._later.clear()
        self._stands_still = False
        return self._add(Failed(error, at_ts=1003.0))

    def tell(self, event: Event) -> ScriptedHandle:
        return self._add(event)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()

    def take_at_once(self, take: Callable[[TokenBatch], bool]) -> None:
        """Everything is iterated here."""

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.release_on_cancel:
            self.release()

    def when_released(self, call: Callable[[], None]) -> None:
        if self._is_released:
            call()
        else:
            self._on_released.append(call)

    def release(self) -> None:
        """The engine has let go of it."""
        self._is_released = True
        while self._on_released:
            self._on_released.pop()()

    def note_completed(self, timings: Timings) -> None:
        self.completed.append(timings)

    def hold(self, reason: HoldReason) -> None:
        self.holds.add(reason)

    def resume(self, reason: HoldReason) -> None:
        self.holds.discard(reason)
        if reason is HoldReason.HOOK:
            self._stands_still = False
            self._go_on()

    def inject(self, token_ids: tuple[int, ...]) -> None:
        """Answered as the engine would, or with `injection_refusal`; what was taken is in `injections`."""
        refusal = self.injection_refusal if self._stands_still else InjectionRefusal.NOT_HELD
        if refusal is None and not token_ids:
            refusal = InjectionRefusal.EMPTY
        if refusal is None and any(token_id >= 256 for token_id in token_ids):
            refusal = InjectionRefusal.CONTROL_TOKEN
        if refusal is not None:
            self._events.put_nowait(Injected(0, 0, refusal, at_ts=1001.9))
            return
        if self._has_token:
            self._later.popleft()
        self._events.put_nowait(Injected(len(token_ids), int(self._has_token), "", at_ts=1001.9))
        self._has_token = False
        self.injections.append(token_ids)


class ScriptedEngine:
    """Implements the runtime's Engine and GenerationBackend. `play` is called for each request."""

    def __init__(self, play: Callable[[ScriptedHandle], object] = lambda handle: None) -> None:
        self.description = ModelDescription(
            id="scripted",
            created=1_700_000_000,
            trained_context=4096,
            num_cells=4096,
            max_request_tokens=4096,
            num_vocabulary=259,
            chat_templates={"default": CHATML},
            fingerprint="fp_scripted",
        )
        self.tokenizer = ByteTokenizer()
        self.constraints = ScriptedCompiler()
        self.backend = self
        self.projector: MediaProjector | None = None
        self.embeddings: EmbeddingBackend | None = None
        self.is_alive = True
        self.max_requests = 64
        self.play = play
        self.handles: list[ScriptedHandle] = []
        self.refusal: SkippyError | None = None
        self.can_be_freed = True

    def submit(self, request: GenerationRequest, *, deadline_ts: float | None = None) -> ScriptedHandle:
        if self.refusal is not None:
            raise self.refusal
        handle = ScriptedHandle(request, deadline_ts)
        self.handles.append(handle)
        self.play(handle)
        return handle

    def refuse_early(self, newcomer: Newcomer) -> None:
        if self.refusal is not None:
            raise self.refusal

    def reject_overdue(self, *, request_id: str, user_id: int, allowed_s: float) -> ServerOverloaded:
        return ServerOverloaded(f"no lane within {allowed_s} s", reason=RejectionReason.ADMISSION_TIMEOUT)

    def refuse(self, error: SkippyError) -> None:
        self.refusal = error

    def statistics(self) -> EngineStatistics:
        return EngineStatistics(
            is_alive=self.is_alive,
            lanes=LaneStatistics(num_lanes=4, num_used=len(self.handles)),
            num_decoding=len(self.handles),
        )

    def begin_stop(self) -> None:
        self.is_alive = False

    def give_up(self) -> None:
        self.is_alive = False
        for handle in self.handles:
            handle.fail(ServiceUnavailable("The engine has stopped after a fault."))

    async def stop(self) -> bool:
        self.is_alive = False
        return self.can_be_freed


class ScriptedLoader:
    """Gives the runtime a scripted engine, or what it should fail with."""

    def __init__(self, engine: ScriptedEngine, *, failure: Exception | None = None) -> None:
        self._engine = engine
        self._failure = failure

    async def load(self, order: LoadOrder, admit: Callable[[int], AdmissionController]) -> ScriptedEngine:
        if self._failure is not None:
            raise self._failure
        admit(self._engine.description.num_cells)
        return self._engine


async def no_files(settings: ModelSettings, report: Callable[[str], None]) -> ModelFiles:
    """ModelSources of models that have none."""
    return ModelFiles(model=Path(settings.source))


def small_sizes(settings: ModelSettings) -> ModelSizes:
    """Sizes as the scripted engine's statistics have them."""
    return ModelSizes(engine=EngineConfig(num_lanes=4), max_waiting=16)
