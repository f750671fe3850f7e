"""Stand-ins at the engine's seams: a model without llama.cpp, a queue without rules, a clock by hand."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from inference.domain.adapters import AppliedAdapter, adapter_namespace
from inference.domain.admission import EventSink, Submission
from inference.domain.backend import HoldReason, Newcomer
from inference.domain.cache_affinity import CacheAffinity
from inference.domain.errors import ServerOverloaded, SkippyError
from inference.domain.events import Event, Failed, Finished, PromptScores, TokenBatch
from inference.domain.logprobs import TokenLogprobs
from inference.domain.media_run import MediaRun, media_token_ids
from inference.domain.requests import GenerationRequest, SamplingParams
from inference.domain.signals import SignalRequest, TokenSignal
from inference.domain.speculation import SpeculationMode, SpeculationRequest
from inference.domain.timings import Timings
from inference.engine.config import EngineConfig
from inference.engine.core import EngineCore
from inference.engine.drafting.draft_model import DraftModel
from inference.engine.memory_plan import DeviceMemory
from inference.engine.plan import NOTHING_DRAWN, DraftedDecode, DrawnRun, StepOutcome, StepPlan, StepResult
from inference.engine.sequence import Sequence

END_TOKEN = 2
CONTROL_TOKEN = 3
VOCABULARY = 1000
SURE = TokenSignal(entropy=0.5, margin=3.0)
LOST = TokenSignal(entropy=4.5, margin=0.1)


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def unix_time(self) -> float:
        return self.now_s


@dataclass(frozen=True, eq=False)
class Cell:
    """What was computed for one token: shared cells are the same object. It is right for whoever has
    the same tokens up to here, and for nobody of another namespace."""

    token_id: int
    namespace: str


class ScriptedRunner:
    """A ModelRunner that keeps cells as llama.cpp does and draws the tokens that a test wants.

    It is strict: positions that do not follow the cells, unknown sequences, outputs that are not
    marked, cells of other tokens than the sequence's own are assertion errors, because llama.cpp would
    refuse, die, or compute nonsense.
    """

    def __init__(
        self,
        *,
        num_cells: int = 4096,
        num_lanes: int = 4,
        num_sequences: int | None = None,
        clock: ManualClock | None = None,
        can_share_prefixes: bool = True,
    ) -> None:
        self.num_cells = num_cells
        self.num_vocabulary = VOCABULARY
        self.max_outputs = 16
        self.end_token_ids = frozenset({END_TOKEN})
        self.control_token_ids = frozenset({END_TOKEN, CONTROL_TOKEN})
        self.max_sequence_tokens = num_cells
        self.num_lanes = num_lanes
        self.num_sequences = num_sequences or num_lanes
        self.can_share_prefixes = can_share_prefixes
        self.memory: tuple[DeviceMemory, ...] = ()
        self.draft_model: DraftModel | None = None
        self.cells: dict[int, list[Cell]] = {}
        self.kept: set[int] = set()
        self.copies: list[tuple[int, int, int]] = []
        self.copy_troubles: deque[bool | Exception] = deque()
        self.num_piece_tokens = 4
        self.state_origin = "scripted"
        self.state_troubles: deque[bool | Exception] = deque()
        self.saved: list[tuple[int, int, int]] = []
        self.loaded: list[tuple[int, int, int]] = []
        self.drawn: dict[str, list[int]] = {}
        self.requests: dict[int, GenerationRequest] = {}
        self.num_drawn: dict[str, int] = {}
        self.plans: list[StepPlan] = []
        self.violations: list[AssertionError] = []
        self.outcomes: deque[StepOutcome | Exception] = deque()
        # Of a batch that is aborted or fails by script, so many rows are computed before it does.
        self.num_rows_before_trouble = 0
        # Or takes everybody's cells with it, as a model does whose texts are states.
        self.loses_memory = False
        self.poisoned: set[str] = set()
        self.draw: Callable[[GenerationRequest, int], int] = lambda request, index: 100 + index
        # How many tokens are forced behind one that was drawn, and whether nothing follows those.
        self.force: Callable[[GenerationRequest, int], int] = lambda request, index: 0
        self.ends: Callable[[GenerationRequest, int], bool] = lambda request, index: False
        self.measure: Callable[[GenerationRequest, int], TokenSignal] = lambda request, index: SURE
        self.clock = clock
        self.token_s = 0.0
        self.before_run: Callable[[StepPlan], None] = lambda plan: None
        self.is_interrupted = threading.Event()
        self.is_closed = False

    @property
    def num_used_cells(self) -> int:
        return len({cell for cells in self.cells.values() for cell in cells})

    @property
    def num_running_cells(self) -> int:
        return len({cell for one, cells in self.cells.items() if one in self.requests for cell in cells})

    def open(self, sequence_id: int, request: GenerationRequest) -> None:
        assert 0 <= sequence_id < self.num_sequences
        assert sequence_id not in self.cells, "opened twice"
        assert len(self.requests) < self.num_lanes
        self.requests[sequence_id] = request
        self.cells[sequence_id] = []

    def run(self, plan: StepPlan) -> StepResult:
        self.plans.append(plan)
        self.before_run(plan)
        try:
            self._check(plan)
        except AssertionError as violation:
            # The engine survives whatever a runner raises, so the test must be told apart from that.
            self.violations.append(violation)
            raise
        if self.clock is not None:
            self.clock.now_s += self.token_s * plan.num_tokens
        if self.outcomes:
            outcome = self.outcomes.popleft()
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not StepOutcome.DONE:
                if outcome is StepOutcome.NO_CELLS:
                    return StepResult(outcome)
                if self.loses_memory:
                    self.cells = {sequence_id: [] for sequence_id in self.cells}
                else:
                    self._apply(plan, self.num_rows_before_trouble)
                return StepResult(outcome, is_memory_lost=self.loses_memory)
        names = {self.requests[int(one)].request_id for one in plan.sequence_ids}
        if names & self.poisoned:
            return StepResult(StepOutcome.FAILED)
        if self.num_used_cells + plan.num_tokens > self.num_cells:
            return StepResult(StepOutcome.NO_CELLS)
        self._apply(plan, plan.num_tokens)
        if plan.num_scored:
            chunk = plan.prefills[0]
            end = chunk.sequence.num_computed + chunk.num_tokens
            return StepResult(
                StepOutcome.DONE, scores=self._scores(chunk.sequence.request, end, plan.num_scored)
            )
        signals = {
            row: self.measure(one.request, self.num_drawn.get(one.request.request_id, 0))
            for row, one in enumerate(plan.outputs)
            if one.watch is not None and not one.watch.is_over
        }
        token_ids = [self._next(one.sequence_id) for one in plan.outputs]
        forced = {row: self._force(one) for row, one in enumerate(plan.outputs) if one.watch is None}
        ended = {
            row
            for row, one in enumerate(plan.outputs)
            if self.ends(one.request, self.num_drawn[one.request.request_id])
        }
        forced = {row: tokens for row, tokens in forced.items() if tokens}
        runs = tuple(self._draw_run(one) for one in plan.drafted)
        return StepResult(
            StepOutcome.DONE, token_ids, signals=signals, ended=frozenset(ended), forced=forced, runs=runs
        )

    def _draw_run(self, drafted: DraftedDecode) -> DrawnRun:
        """One token for each row, as long as the guesses are right and nothing ends or forces."""
        sequence = drafted.sequence
        tokens: list[int] = []
        for guess in (*drafted.token_ids, None):
            tokens.append(self._next(sequence.sequence_id))
            num_left = sequence.max_tokens - sequence.num_generated - len(tokens)
            name = sequence.request.request_id
            num_forced = min(self.force(sequence.request, self.num_drawn[name] - 1), num_left)
            if sequence.watch is not None or tokens[-1] in (END_TOKEN, NOTHING_DRAWN):
                num_forced = 0
            forced = tuple([self._next(sequence.sequence_id) for _ in range(num_forced)])
            is_ended = self.ends(sequence.request, self.num_drawn[name])
            if tokens[-1] != guess or forced or is_ended or not num_left:
                break
        return DrawnRun(tuple(tokens), forced, is_ended=is_ended)

    def _scores(self, request: GenerationRequest, end: int, num_scored: int) -> tuple[TokenLogprobs, ...]:
        """Each token is as likely as its place and id say."""
        places = range(end - num_scored + 1, end + 1)
        return tuple([TokenLogprobs(score_of(place, request.prompt_token_ids[place])) for place in places])

    def _force(self, sequence: Sequence) -> tuple[int, ...]:
        request = sequence.request
        num_left = sequence.max_tokens - sequence.num_generated - 1
        num_forced = min(self.force(request, self.num_drawn[request.request_id] - 1), num_left)
        return tuple([self._next(sequence.sequence_id) for _ in range(num_forced)])

    def _apply(self, plan: StepPlan, num_rows: int) -> None:
        num_rows = min(num_rows, self.num_cells - self.num_used_cells)
        rows = zip(plan.token_ids.tolist(), plan.sequence_ids.tolist(), strict=True)
        for token_id, sequence_id in list(rows)[:num_rows]:
            self.cells[sequence_id].append(Cell(token_id, self.requests[sequence_id].cache_namespace))

    def _next(self, sequence_id: int) -> int:
        request = self.requests[sequence_id]
        index = self.num_drawn.get(request.request_id, 0)
        self.num_drawn[request.request_id] = index + 1
        token_id = self.draw(request, index)
        self.drawn.setdefault(request.request_id, []).append(token_id)
        return token_id

    def _check(self, plan: StepPlan) -> None:
        assert plan.num_tokens > 0
        expected: dict[int, int] = {}
        for position, sequence_id in zip(plan.positions.tolist(), plan.sequence_ids.tolist(), strict=True):
            assert sequence_id in self.requests, "a sequence that was not opened"
            follows = expected.get(sequence_id, len(self.cells[sequence_id]))
            assert position == follows, f"position {position} of {sequence_id} does not follow {follows}"
            expected[sequence_id] = position + 1
        marked = plan.sequence_ids[plan.is_output.astype(bool)].tolist()
        if plan.num_scored:
            assert len(plan.prefills) == 1
            assert not plan.outputs
            assert marked == [plan.prefills[0].sequence.sequence_id] * plan.num_scored
        else:
            ids_of_drafts = [one.sequence.sequence_id for one in plan.drafted for _ in range(one.num_rows)]
            assert marked == [sequence.sequence_id for sequence in plan.outputs] + ids_of_drafts
        assert len(marked) == plan.num_outputs <= self.max_outputs
        guesses = {one.sequence: one.token_ids for one in plan.drafted}
        for sequence in plan.sequences:
            assert not sequence.submission.holds, "computed while it is held"
            request = sequence.request
            assert request.adapters == plan.adapters, "computed with adapters of others"
            known = [*request.prompt_token_ids, *self.drawn.get(request.request_id, [])]
            known += guesses.get(sequence, ())
            rows = plan.token_ids[plan.sequence_ids == sequence.sequence_id].tolist()
            cells = self.cells[sequence.sequence_id]
            assert [cell.token_id for cell in cells] + rows == known[: len(cells) + len(rows)]
            assert all(cell.namespace == request.cache_namespace for cell in cells), "namespaces mix"
        self._check_media(plan)

    def _check_media(self, plan: StepPlan) -> None:
        """A batch has embeddings or tokens; embeddings are those of its ids; some come whole only."""
        is_made_up = [token_id < 0 for token_id in plan.token_ids.tolist()]
        if plan.embeddings is None:
            assert not any(is_made_up), "made-up ids without embeddings"
            assert plan.is_causal
            return
        assert all(is_made_up), "tokens and embeddings in one batch"
        assert plan.embeddings.tolist() == rows_of(tuple(plan.token_ids.tolist())).tolist()
        for chunk in plan.prefills:
            begin = len(self.cells[chunk.sequence.sequence_id])
            run = next(one for one in chunk.sequence.request.media if one.start <= begin < one.end)
            assert begin + chunk.num_tokens <= run.end
            if not run.is_causal:
                assert not plan.is_causal
                assert len(plan.prefills) == 1
                assert (begin, chunk.num_tokens) == (run.start, run.num_tokens), "a picture was cut"

    def inject(self, sequence_id: int, token_ids: tuple[int, ...], *, takes_back: bool) -> None:
        """What was taken back is drawn again, with the same number."""
        name = self.requests[sequence_id].request_id
        drawn = self.drawn.setdefault(name, [])
        if takes_back:
            drawn.pop()
            self.num_drawn[name] -= 1
        drawn.extend(token_ids)

    def rewind(self, sequence_id: int, max_tokens: int) -> int:
        cells = self.cells[sequence_id]
        if not self.can_share_prefixes and max_tokens < len(cells):
            max_tokens = 0
        del cells[max_tokens:]
        return len(cells)

    def copy_prefix(self, source_id: int, target_id: int, num_tokens: int) -> bool:
        trouble = self.copy_troubles.popleft() if self.copy_troubles else True
        if isinstance(trouble, Exception):
            raise trouble
        if not trouble:
            return False
        self.copies.append((source_id, target_id, num_tokens))
        try:
            assert target_id in self.requests
            assert not self.cells[target_id]
            assert 0 < num_tokens <= len(self.cells[source_id])
            assert self.can_share_prefixes or num_tokens == len(self.cells[source_id]), "cut"
        except (AssertionError, KeyError) as violation:
            self.violations.append(AssertionError(f"a wrong copy: {violation!r}"))
            raise
        self.cells[target_id] = self.cells[source_id][:num_tokens]
        return True

    def save_state(self, sequence_id: int, begin: int, end: int) -> np.ndarray | None:
        if not self._state_is_well():
            return None
        self.saved.append((sequence_id, begin, end))
        cells = self.cells[sequence_id][begin:end]
        if not self.can_share_prefixes and (begin, end) != (0, len(self.cells[sequence_id])):
            self.violations.append(AssertionError(f"[{begin}, {end}) of {sequence_id} was to be cut out"))
        if len(cells) != end - begin:
            self.violations.append(AssertionError(f"no cells [{begin}, {end}) of {sequence_id} to save"))
        return np.frombuffer(pickle.dumps((begin, cells)), dtype=np.uint8).copy()

    def load_state(self, sequence_id: int, begin: int, end: int, data: np.ndarray) -> bool:
        if not self._state_is_well():
            return False
        self.loaded.append((sequence_id, begin, end))
        first, cells = pickle.loads(data.tobytes())  # noqa: S301
        own = self.cells[sequence_id]
        if not self.can_share_prefixes and (begin, end) != (0, len(cells)):
            self.violations.append(AssertionError(f"[{begin}, {end}) of a state of {len(cells)}"))
        if len(own) != begin or not first <= begin < end <= first + len(cells):
            self.violations.append(AssertionError(f"[{begin}, {end}) of {sequence_id} were loaded"))
        if self.num_used_cells + len(cells) > self.num_cells:
            return False
        own += [Cell(one.token_id, one.namespace) for one in cells[begin - first : end - first]]
        return True

    def _state_is_well(self) -> bool:
        trouble = self.state_troubles.popleft() if self.state_troubles else True
        if isinstance(trouble, Exception):
            # The same one may be raised again and again, and would be longer each time.
            raise trouble.with_traceback(None)
        return trouble

    def keep_sequence(self, sequence_id: int, num_tokens: int) -> bool:
        del self.requests[sequence_id]
        self.kept.add(sequence_id)
        del self.cells[sequence_id][num_tokens:]
        return len(self.cells[sequence_id]) == num_tokens

    def close_sequence(self, sequence_id: int) -> None:
        self.requests.pop(sequence_id, None)
        self.kept.discard(sequence_id)
        del self.cells[sequence_id]

    def interrupt(self) -> None:
        self.is_interrupted.set()

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True


class CountedGrant:
    """A grant that knows how often it was given back."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.num_releases = 0
        self.num_output_tokens = 0

    def release(self, *, num_output_tokens: int = 0) -> None:
        self.num_releases += 1
        self.num_output_tokens = num_output_tokens


class QueueTicket:
    def __init__(self, queue: deque[Submission], submission: Submission, lock: threading.Lock) -> None:
        self._queue = queue
        self._submission = submission
        self._lock = lock
        self.notes: list[object] = []

    def withdraw(self) -> bool:
        with self._lock:
            try:
                self._queue.remove(self._submission)
            except ValueError:
                return False
            return True

    def note_started(self) -> None:
        self.notes.append("started")

    def note_completed(self, timings: Timings) -> None:
        self.notes.append(timings)

    def note_failed(self) -> None:
        self.notes.append("failed")


class FifoAdmission:
    """Both sides of admission without any rule but order."""

    def __init__(self) -> None:
        self.max_requests = 64
        self.waiting: deque[Submission] = deque()
        self.grants: list[CountedGrant] = []
        self.closed_with: SkippyError | None = None
        self.elect_error: Exception | None = None
        self.tickets: list[QueueTicket] = []
        self._lock = threading.Lock()

    def submit(self, submission: Submission) -> QueueTicket:
        with self._lock:
            if self.closed_with is not None:
                raise self.closed_with
            self.waiting.append(submission)
            ticket = QueueTicket(self.waiting, submission, self._lock)
            self.tickets.append(ticket)
            return ticket

    def refuse_early(self, newcomer: Newcomer) -> None:
        if self.closed_with is not None:
            raise self.closed_with

    def reject_overdue(self, *, request_id: str, user_id: int, allowed_s: float) -> ServerOverloaded:
        return ServerOverloaded(f"{request_id}: no lane within {allowed_s} s")

    def elect(self, affinity: CacheAffinity) -> CountedGrant | None:
        with self._lock:
            if self.elect_error is not None:
                raise self.elect_error
            if not self.waiting:
                return None
            grant = CountedGrant(self.waiting.popleft())
            self.grants.append(grant)
            return grant

    def close(self, error: SkippyError) -> list[Submission]:
        with self._lock:
            self.closed_with = self.closed_with or error
            waiting = list(self.waiting)
            self.waiting.clear()
            return waiting

    def check_integrity(self) -> None:
        assert all(grant.num_releases <= 1 for grant in self.grants)

    @property
    def num_held(self) -> int:
        return sum(not grant.num_releases for grant in self.grants)


class RecordingSink:
    """The events of one request, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    @property
    def token_ids(self) -> list[int]:
        return [one for event in self.events if isinstance(event, TokenBatch) for one in event.token_ids]

    @property
    def prompt_scores(self) -> list[float]:
        scores = [one for event in self.events if isinstance(event, PromptScores) for one in event.logprobs]
        return [one.logprob for one in scores]

    @property
    def endings(self) -> list[Event]:
        return [event for event in self.events if isinstance(event, Finished | Failed)]


def make_request(
    name: str = "r",
    *,
    prompt: int | tuple[int, ...] = 3,
    max_tokens: int = 4,
    ignore_eos: bool = False,
    namespace: str = "",
    signals: SignalRequest | None = None,
    max_draft_tokens: int = 0,
    group: str = "",
    num_prompt_logprobs: int | None = None,
) -> GenerationRequest:
    """`prompt` is the token ids, or how many of them."""
    ids = tuple(10 + index % 900 for index in range(prompt)) if isinstance(prompt, int) else prompt
    return GenerationRequest(
        name,
        ids,
        max_tokens,
        SamplingParams(temperature=0.0),
        ignore_eos,
        cache_namespace=namespace,
        signals=signals,
        speculation=(
            SpeculationRequest(SpeculationMode.PROMPT_LOOKUP, max_draft_tokens) if max_draft_tokens else None
        ),
        sibling_group=group,
        num_prompt_logprobs=num_prompt_logprobs,
    )


def with_adapters(request: GenerationRequest, *adapters: AppliedAdapter) -> GenerationRequest:
    """In a namespace of its own, as it must be."""
    namespace = request.cache_namespace + adapter_namespace(adapters)
    return replace(request, adapters=adapters, cache_namespace=namespace)


def score_of(place: int, token_id: int) -> float:
    """What the scripted runner says of a prompt's token."""
    return -place - token_id / 1000


def rows_of(token_ids: tuple[int, ...]) -> np.ndarray:
    """Embeddings that a test knows by their made-up ids: (num_tokens, 2)."""
    return np.array([(one % 4096, one % 97) for one in token_ids], dtype=np.float32).reshape(-1, 2)


def with_media(
    request: GenerationRequest, *places: tuple[int, int, str], is_causal: bool = True
) -> GenerationRequest:
    """`places` are (start, number of tokens, name of the picture): equal names are equal pictures."""
    prompt = list(request.prompt_token_ids)
    runs = []
    for start, count, name in places:
        ids = media_token_ids(name.encode(), 0, count)
        prompt[start : start + count] = ids
        runs.append(MediaRun(start, rows_of(ids), is_causal))
    return replace(request, prompt_token_ids=tuple(prompt), media=tuple(runs))


class Engine:
    """An EngineCore with stand-ins around it, stepped by the test. Without a prefix cache unless the
    test asks for it: the prompts of most tests begin alike, and that is not what they are about."""

    def __init__(
        self,
        *,
        num_lanes: int = 4,
        num_cells: int = 4096,
        has_prefix_cache: bool = False,
        can_share_prefixes: bool = True,
        **config: float,
    ) -> None:
        self.clock = ManualClock()
        self.admission = FifoAdmission()
        self.deliveries: list[list[tuple[EventSink, Event]]] = []
        self.config = EngineConfig(
            num_lanes=num_lanes,
            num_cells=max(num_cells, 256),
            has_prefix_cache=has_prefix_cache,
            **config,  # type: ignore[arg-type]
        )
        self.runner = ScriptedRunner(
            num_cells=num_cells,
            num_lanes=num_lanes,
            num_sequences=self.config.num_sequences,
            clock=self.clock,
            can_share_prefixes=can_share_prefixes,
        )
        self.runner.can_share_prefixes = can_share_prefixes
        self.core = EngineCore(self.runner, self.config, self.admission, self.clock, self._deliver)
        self.sinks: dict[str, RecordingSink] = {}
        self.submissions: dict[str, Submission] = {}

    def _deliver(self, events: list[tuple[EventSink, Event]]) -> None:
        self.deliveries.append(events)
        for sink, event in events:
            assert isinstance(sink, RecordingSink)
            sink.events.append(event)

    def submit(self, request: GenerationRequest) -> RecordingSink:
        sink = RecordingSink()
        submission = Submission(request, sink, self.clock.monotonic())
        self.sinks[request.request_id] = sink
        self.submissions[request.request_id] = submission
        self.admission.submit(submission)
        return sink

    def cancel(self, name: str) -> None:
        self.core.inbox.cancel(self.submissions[name])

    def hold(self, name: str, reason: HoldReason = HoldReason.READER) -> None:
        self.core.inbox.hold(self.submissions[name], reason)

    def resume(self, name: str, reason: HoldReason = HoldReason.READER) -> None:
        self.core.inbox.resume(self.submissions[name], reason)

    def inject(self, name: str, *token_ids: int) -> None:
        self.core.inbox.inject(self.submissions[name], token_ids)

    def run(self, max_steps: int = 1000) -> int:
        """Step until there is nothing to do; how many steps that took."""
        for count in range(max_steps):
            if not self.core.step():
                return count
        raise AssertionError(f"still busy after {max_steps} steps: {self.core!r}")

    def check(self) -> None:
        self.core.check_integrity()
        self.admission.check_integrity()
        for violation in self.runner.violations:
            raise violation
        statistics = self.core.statistics(is_alive=True)
        assert statistics.lanes.num_used == self.admission.num_held
        assert statistics.num_cells_used == self.runner.num_running_cells
        assert statistics.num_cells_used + statistics.num_cells_cached == self.runner.num_used_cells
        assert statistics.cache.num_entries == len(self.runner.kept)

    def check_all_free(self) -> None:
        self.check()
        statistics = self.core.statistics(is_alive=True)
        assert statistics.is_idle
        assert statistics.num_cells_used == 0
        assert self.admission.num_held == 0
        assert not self.runner.requests
        assert self.runner.num_used_cells == statistics.num_cells_cached
