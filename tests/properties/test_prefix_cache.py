"""Shared prefixes under anything that can happen to the engine, in any order.

The scripted runner keeps each cell with its token and namespace, shares cells as llama.cpp does, and
checks in every batch that a sequence's cells are those of its own tokens. So whatever is added,
cancelled, held, preempted, evicted, refused or failed: nobody decodes on wrong tokens, namespaces never
mix, the books agree with the cells, and nobody waits for ever.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from inference.domain.events import Failed, Finished, Started
from inference.domain.media_run import media_token_ids
from inference.domain.requests import GenerationRequest
from inference.engine.plan import StepOutcome
from inference.engine.sequence import PREFILLING, WAITING_FOR_PREFIX
from tests.unit.engine.scripted_engine_parts import END_TOKEN, Engine, make_request, with_media

NUM_CELLS = 256
MIN_TOKENS = 8
TROUBLES = [StepOutcome.FAILED, StepOutcome.ABORTED, StepOutcome.NO_CELLS, OSError("gone")]
# Prompts are made of few pieces, so that they often begin alike and part at many places.
PIECES = st.lists(
    st.tuples(st.sampled_from([10, 20, 30, "a"]), st.sampled_from([1, 5, 8, 20, 60])), min_size=1, max_size=4
)
# A piece with a letter is a picture, of which there is one for each length.
PICTURES = {media_token_ids(bytes([length]), 0, 1)[0]: length for length in (1, 5, 8, 20, 60)}
NAMESPACES = st.sampled_from(["", "", "other"])


Piece = tuple[int | str, int]


def prompt_of(pieces: list[Piece]) -> tuple[int, ...]:
    ids: list[int] = []
    for kind, length in pieces:
        if isinstance(kind, str):
            ids += media_token_ids(bytes([length]), 0, length)
        else:
            ids += [kind + index % 7 for index in range(length)]
    return tuple(ids)


class PrefixCacheMachine(RuleBasedStateMachine):
    names = Bundle("names")
    # Beside what the cells hold; the machine of test_cold_prefixes.py has some.
    host_cache_bytes = 0
    fewest_cached = MIN_TOKENS
    can_share_prefixes = True

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.cancelled: set[str] = set()
        self.stops_at: dict[str, int] = {}
        self.held: set[str] = set()
        self.was_held: set[str] = set()

    @initialize(
        num_lanes=st.integers(1, 6),
        max_entries=st.integers(0, 6),
        max_cells=st.sampled_from([16, 64, 128, 256]),
        budget=st.sampled_from([32, 64, 256]),
        kind=st.sampled_from(["on", "on", "on", "off", "cannot be cut", "cannot be cut, off"]),
    )
    def start(self, num_lanes: int, max_entries: int, max_cells: int, budget: int, kind: str) -> None:
        self.engine = Engine(
            num_lanes=num_lanes,
            num_cells=NUM_CELLS,
            has_prefix_cache="off" not in kind,
            max_cached_entries=max_entries,
            min_cached_tokens=MIN_TOKENS,
            max_cached_cells=max_cells,
            max_batch_tokens=budget,
            max_prefill_tokens_beside_decodes=32,
            resume_headroom_tokens=1,
            host_cache_bytes=self.host_cache_bytes,
            can_share_prefixes=self.can_share_prefixes and "cut" not in kind,
        )
        self.max_cells = max_cells
        self.engine.runner.draw = self._draw

    def _draw(self, request: GenerationRequest, index: int) -> int:
        return END_TOKEN if index == self.stops_at.get(request.request_id) else 100 + index

    def _submit(self, prompt: tuple[int, ...], namespace: str, max_tokens: int, group: str = "") -> str:
        self.count += 1
        name = f"r{self.count}"
        prompt = prompt[: NUM_CELLS - 1]
        places = [
            (start, min(PICTURES[first], len(prompt) - start), bytes([PICTURES[first]]).decode())
            for start, first in enumerate(prompt)
            if first in PICTURES
        ]
        request = make_request(name, prompt=prompt, max_tokens=max_tokens, namespace=namespace, group=group)
        # Anything may be said of where the template begins the answer.
        request = replace(request, prefix_boundary=self.count * 13 % (len(prompt) + 2))
        self.engine.submit(with_media(request, *places))
        return name

    # -- what callers do ------------------------------------------------------------------------

    @rule(
        target=names,
        pieces=PIECES,
        namespace=NAMESPACES,
        max_tokens=st.integers(1, 60),
        stops_at=st.none() | st.integers(0, 20),
    )
    def submit(self, pieces: list[Piece], namespace: str, max_tokens: int, stops_at: int | None) -> str:
        if stops_at is not None:
            self.stops_at[f"r{self.count + 1}"] = stops_at
        prompt = prompt_of(pieces)
        return self._submit(prompt, namespace, max_tokens)

    @rule(target=names, name=names, more=st.integers(0, 20), max_tokens=st.integers(1, 30))
    def ask_again(self, name: str, more: int, max_tokens: int) -> str:
        """The next turn of a conversation: all that was said, and something new."""
        request = self.engine.submissions[name].request
        said = tuple(self.engine.sinks[name].token_ids)
        prompt = request.prompt_token_ids + said + (50,) * more
        return self._submit(prompt, request.cache_namespace, max_tokens)

    @rule(target=names, name=names, has_moved=st.booleans())
    def repeat(self, name: str, has_moved: bool) -> str:
        """The very same prompt, of the same namespace or of another one."""
        request = self.engine.submissions[name].request
        namespace = "moved" if has_moved else request.cache_namespace
        return self._submit(request.prompt_token_ids, namespace, 5)

    @rule(pieces=PIECES, num_requests=st.integers(2, 6), namespace=NAMESPACES)
    def flood(self, pieces: list[Piece], num_requests: int, namespace: str) -> None:
        """Many at once that begin alike."""
        prompt = prompt_of(pieces)
        for index in range(num_requests):
            self._submit((*prompt, 60 + index), namespace, 5)

    @rule(pieces=PIECES, num_answers=st.integers(2, 6), namespace=NAMESPACES)
    def ask_for_many_answers(self, pieces: list[Piece], num_answers: int, namespace: str) -> None:
        prompt, group = prompt_of(pieces), f"g{self.count}"
        for _ in range(num_answers):
            self._submit(prompt, namespace, 5, group)

    @rule(name=consumes(names))
    def cancel(self, name: str) -> None:
        if not self.engine.sinks[name].endings:
            self.cancelled.add(name)
        submission = self.engine.submissions[name]
        if submission in self.engine.admission.waiting:
            self.engine.admission.waiting.remove(submission)
        else:
            self.engine.cancel(name)

    @rule(name=names)
    def hold(self, name: str) -> None:
        self.engine.hold(name)
        self.held.add(name)
        self.was_held.add(name)

    @rule(name=names)
    def resume(self, name: str) -> None:
        self.engine.resume(name)
        self.held.discard(name)

    @rule(can_follow=st.booleans())
    def hold_whom_others_wait_for(self, can_follow: bool) -> None:
        for sequence in self.engine.core._scheduler.waiting_for_prefix():
            if sequence.leader is not None:
                self.hold((sequence if can_follow else sequence.leader).request.request_id)
                return

    @rule()
    def cancel_a_leader(self) -> None:
        for sequence in self.engine.core._scheduler.waiting_for_prefix():
            if sequence.leader is not None and sequence.leader.state is PREFILLING:
                name = sequence.leader.request.request_id
                self.cancelled.add(name)
                self.engine.cancel(name)
                return

    # -- what happens to the engine -------------------------------------------------------------

    @rule(num_steps=st.integers(1, 20))
    def step(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.engine.core.step()

    @rule(outcome=st.sampled_from(TROUBLES), num_rows=st.sampled_from([0, 1, 5, 200]))
    def something_goes_wrong(self, outcome: StepOutcome | Exception, num_rows: int) -> None:
        self.engine.runner.outcomes.append(outcome)
        self.engine.runner.num_rows_before_trouble = num_rows

    @rule(trouble=st.sampled_from([False, OSError("no copy")]))
    def a_copy_goes_wrong(self, trouble: bool | Exception) -> None:
        self.engine.runner.copy_troubles.append(trouble)

    @rule(name=names)
    def poison(self, name: str) -> None:
        self.engine.runner.poisoned.add(name)

    @rule()
    def evict(self) -> None:
        self.engine.core._memory.evict_one()

    # -- what must always hold ------------------------------------------------------------------

    @invariant()
    def books_agree_with_cells(self) -> None:
        self.engine.check()
        statistics = self.engine.core.statistics(is_alive=True)
        running = self.engine.core._scheduler.sequences
        for sequence in running:
            assert len(self.engine.runner.cells[sequence.sequence_id]) == sequence.num_computed
            if sequence.state is WAITING_FOR_PREFIX:
                was_held = sequence.request.request_id in self.was_held
                assert not sequence.is_announced or sequence.num_preemptions or was_held
        assert statistics.cache.total_hits == len(self.engine.runner.copies)

    @invariant()
    def events_come_in_order_and_tokens_are_right(self) -> None:
        for name, sink in self.engine.sinks.items():
            assert len(sink.endings) <= 1
            assert Started not in [type(event) for event in sink.events[1:]]
            assert sink.token_ids == [100 + index for index in range(len(sink.token_ids))]
            request = self.engine.submissions[name].request
            for event in sink.events[:1]:
                if isinstance(event, Started) and event.num_cached_tokens:
                    least = 1 if request.sibling_group else self.fewest_cached
                    assert least <= event.num_cached_tokens < len(request.prompt_token_ids)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.engine.runner.outcomes.clear()
        self.engine.run(max_steps=5000)
        for name in self.held:
            self.engine.resume(name)
        self.engine.run(max_steps=5000)
        self.engine.check_all_free()
        statistics = self.engine.core.statistics(is_alive=True)
        assert statistics.num_cells_cached <= self.max_cells
        for name, sink in self.engine.sinks.items():
            if name not in self.cancelled:
                (ending,) = sink.endings
                assert isinstance(ending, Finished | Failed)
        while self.engine.core._memory.evict_one():
            pass
        assert self.engine.runner.num_used_cells == 0
        assert not self.engine.runner.cells


TestPrefixCacheMachine = PrefixCacheMachine.TestCase
TestPrefixCacheMachine.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
