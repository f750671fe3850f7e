"""What is shown of a replay, by whatever door: its numbers, with names looked up, for who may see them.

A condition can ask of a text whether it begins with an "a". So the numbers of a replay that looked at kept
texts say what is in them, one question after another, and are for those alone who may view texts. Others ask
for replays that treat all texts as not kept, of which the numbers tell nothing that records do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from hooks.models import HookReplay, Webhook
from hooks.models.replay import OPEN_STATES, ReplayState
from hooks.replaying import Example, Tally
from hooks.replaying.tally import OTHERS
from hooks.services.replays import QUIET_TIME
from hooks.services.scope_directory import scope_directory

NUM_TOP = 10
Counted = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ReplayViewer:
    """`sees_everybody`: whose requests they were, and their stories. `sees_texts`: of others, too."""

    sees_everybody: bool
    sees_texts: bool

    def may_see(self, row: HookReplay) -> bool:
        return self.sees_texts or not row.looks_at_texts

    def seen(self, rows: QuerySet[HookReplay]) -> QuerySet[HookReplay]:
        """Those of them."""
        return rows if self.sees_texts else rows.filter(looks_at_texts=False)


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Lists are of (what people read, how many), the most first. `models`, `teams`, `keys` and `examples` are
    empty for who does not see everybody."""

    row: HookReplay
    tally: Tally
    unasked: Counted
    not_evaluated: Counted
    failures: Counted
    actions: Counted
    left_out: Counted
    webhooks: Counted
    models: Counted
    teams: Counted
    keys: Counted
    examples: tuple[Example, ...]
    failed_examples: tuple[Example, ...]

    @property
    def is_open(self) -> bool:
        return self.row.state in OPEN_STATES

    @property
    def is_quiet(self) -> bool:
        """Nobody goes on with it: there is no worker, it has died, or it has much else to do."""
        return self.is_open and timezone.now() - self.row.seen_at > QUIET_TIME

    @property
    def may_go_on(self) -> bool:
        is_ended_early = self.row.state in (ReplayState.CANCELLED, ReplayState.FAILED)
        return is_ended_early or self.is_quiet

    @property
    def num_total(self) -> int:
        return max(self.row.num_total or 0, self.tally.num_records)

    @property
    def num_percent(self) -> int:
        if self.row.state == ReplayState.DONE:
            return 100
        return min(99, 100 * self.tally.num_records // self.num_total) if self.num_total else 0

    @property
    def num_evaluated(self) -> int:
        return self.tally.num_full + self.tally.num_by_condition

    @property
    def num_unmatched(self) -> int:
        return self.num_evaluated - self.tally.num_matched - self.tally.num_failed


def replay_report(row: HookReplay, viewer: ReplayViewer) -> ReplayReport:
    """Of a replay that the viewer may see."""
    (report,) = replay_reports([row], viewer)
    return report


def replay_reports(rows: Sequence[HookReplay], viewer: ReplayViewer) -> list[ReplayReport]:
    """Of replays that the viewer may see. A fixed number of queries for however many rows."""
    tallies = [Tally.from_json(row.tally) for row in rows]
    sees = viewer.sees_everybody
    directory = scope_directory()
    names = _Names(
        teams=directory.teams(_ids([one.teams for one in tallies])) if sees else {},
        keys=directory.keys(_ids([one.keys for one in tallies])) if sees else {},
        webhooks=_webhook_names(_ids([one.webhooks for one in tallies])),
    )
    return [_report(row, tally, names, sees=sees) for row, tally in zip(rows, tallies, strict=True)]


@dataclass(frozen=True, slots=True)
class _Names:
    """What people call what tallies have as ids."""

    teams: Mapping[int, str]
    keys: Mapping[int, str]
    webhooks: Mapping[int, str]


def _report(row: HookReplay, tally: Tally, names: _Names, *, sees: bool) -> ReplayReport:
    return ReplayReport(
        row=row,
        tally=tally,
        unasked=tally.unasked.most_common(),
        not_evaluated=tally.not_evaluated.most_common(),
        failures=tally.failures.most_common(),
        actions=tally.actions.most_common(),
        left_out=tally.left_out.most_common(),
        webhooks=[
            (names.webhooks.get(int(name), f"webhook {name} (gone)"), num)
            for name, num in _top(tally.webhooks)
        ],
        models=_top(tally.models) if sees else [],
        teams=_named(_top(tally.teams), names.teams, none="(no team)") if sees else [],
        keys=_named(_top(tally.keys), names.keys, none="(no key)") if sees else [],
        examples=tuple(reversed(tally.examples)) if sees else (),
        failed_examples=tuple(reversed(tally.failed_examples)) if sees else (),
    )


def report_written(report: ReplayReport) -> dict[str, Any]:
    """As /api shows it, and commands print it."""
    row, tally = report.row, report.tally
    return {
        "id": row.pk,
        "policy_id": row.policy_id,
        "policy": row.policy["name"],
        "is_draft": row.is_draft,
        "state": row.state,
        "reason": row.reason,
        "is_quiet": report.is_quiet,
        "start_at": row.start_at,
        "end_at": row.end_at,
        "looks_at_texts": row.looks_at_texts,
        "asked_by": row.asked_by,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
        "percent": report.num_percent,
        "num_total": row.num_total,
        "num_records": tally.num_records,
        "num_unasked": tally.num_unasked,
        "num_full": tally.num_full,
        "num_by_condition": tally.num_by_condition,
        "num_not_evaluated": tally.num_not_evaluated,
        "num_matched": tally.num_matched,
        "num_failed": tally.num_failed,
        "num_refused": tally.num_refused,
        "num_text_matches": tally.num_text_matches,
        "unasked": dict(report.unasked),
        "not_evaluated": dict(report.not_evaluated),
        "failures": dict(report.failures),
        "actions": dict(report.actions),
        "left_out": dict(report.left_out),
        "webhooks": dict(report.webhooks),
        "models": dict(report.models),
        "teams": dict(report.teams),
        "keys": dict(report.keys),
        "examples": [_example(one) for one in (*report.examples, *report.failed_examples)],
    }


def _example(example: Example) -> dict[str, Any]:
    return {
        "record_id": example.record_id,
        "created_at": example.created_at,
        "model": example.model,
        "actions": example.actions,
        "num_matches": example.num_matches,
        "failure": example.failure,
    }


def _top(counter: Counter[str]) -> Counted:
    return counter.most_common(NUM_TOP)


def _ids(counters: Sequence[Counter[str]]) -> set[int]:
    """Those that are shown."""
    return {int(name) for counter in counters for name, _ in _top(counter) if name.isdigit()}


def _named(counted: Counted, labels: Mapping[int, str], *, none: str) -> Counted:
    return [(_label(name, labels, none), num) for name, num in counted]


def _label(name: str, labels: Mapping[int, str], none: str) -> str:
    if name.isdigit():
        return labels.get(int(name)) or f"#{name} (gone)"
    return OTHERS if name == OTHERS else none


def _webhook_names(ids: set[int]) -> dict[int, str]:
    return dict(Webhook.objects.filter(pk__in=ids).values_list("pk", "name"))
