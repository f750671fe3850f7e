"""What a replay has found so far, in numbers that add up: each record is unasked, evaluated fully, evaluated
by its record alone, or not evaluated. Bounded, whatever the records are: its JSON is written every few
seconds."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from hooks.replaying.judging import Coverage, Verdict
from hooks.replaying.past_request import PastRequest

MAX_EXAMPLES = 50
MAX_FAILED_EXAMPLES = 10
# Of keys, teams and models that matched; those that come later are counted together.
MAX_DISTINCT = 2_000
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Example:
    """A request that matched or failed: numbers alone, since names may be erased."""

    record_id: str
    created_at: str
    user_id: int
    key_id: int
    model: str
    actions: list[str]
    num_matches: int | None = None
    failure: str = ""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counters are by what people read, or by an id as text. `num_text_matches` is of `num_masked` requests
    with text."""

    num_records: int = 0
    num_full: int = 0
    num_by_condition: int = 0
    num_matched: int = 0
    num_refused: int = 0
    """For a failure of the policy."""
    num_text_matches: int = 0
    num_masked: int = 0
    unasked: Counter[str] = field(default_factory=Counter)
    not_evaluated: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    webhooks: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    teams: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    examples: deque[Example] = field(default_factory=lambda: deque(maxlen=MAX_EXAMPLES))
    failed_examples: deque[Example] = field(default_factory=lambda: deque(maxlen=MAX_FAILED_EXAMPLES))

    @property
    def num_unasked(self) -> int:
        return self.unasked.total()

    @property
    def num_not_evaluated(self) -> int:
        return self.not_evaluated.total()

    @property
    def num_failed(self) -> int:
        return self.failures.total()

    def add(self, past: PastRequest, verdict: Verdict) -> None:
        self.num_records += 1
        if verdict.coverage is Coverage.UNASKED:
            self.unasked[verdict.why] += 1
            return
        if verdict.coverage is Coverage.NONE:
            self.not_evaluated[verdict.why] += 1
            return
        if verdict.coverage is Coverage.FULL:
            self.num_full += 1
        else:
            self.num_by_condition += 1
        if verdict.failure:
            self.failures[verdict.failure] += 1
            self.num_refused += verdict.is_refused
            self._add_example(self.failed_examples, past, verdict)
        elif verdict.has_matched:
            self._add_match(past, verdict)

    def _add_match(self, past: PastRequest, verdict: Verdict) -> None:
        self.num_matched += 1
        self.actions.update(verdict.actions)
        self.left_out.update(verdict.left_out)
        self.webhooks.update(map(str, verdict.webhook_ids))
        if verdict.num_matches:
            self.num_text_matches += verdict.num_matches
            self.num_masked += 1
        caller = past.caller
        for counter, name in (
            (self.models, past.model),
            (self.teams, "" if caller.team_id is None else str(caller.team_id)),
            (self.keys, str(caller.key_id)),
        ):
            counter[name if name in counter or len(counter) < MAX_DISTINCT else OTHERS] += 1
        self._add_example(self.examples, past, verdict)

    def _add_example(self, examples: deque[Example], past: PastRequest, verdict: Verdict) -> None:
        """Who was erased is nobody's example."""
        if not past.is_erased:
            examples.append(_example(past, verdict))

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Counter):
                value = dict(value)
            elif isinstance(value, deque):
                value = [asdict(example) for example in value]
            found[one.name] = value
        return found

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Tally:
        made = cls()
        for name, value in written.items():
            own = getattr(made, name)
            if isinstance(own, Counter):
                own.update(value)
            elif isinstance(own, deque):
                own.extend([Example(**one) for one in value])
            else:
                setattr(made, name, value)
        return made


def _example(past: PastRequest, verdict: Verdict) -> Example:
    return Example(
        record_id=str(past.record_id),
        created_at=past.created_at.isoformat(),
        user_id=past.caller.user_id,
        key_id=past.caller.key_id,
        model=past.model,
        actions=list(verdict.actions),
        num_matches=verdict.num_matches,
        failure=verdict.failure,
    )
