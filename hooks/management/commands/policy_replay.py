"""manage.py policy_replay NAME [--span hour|day] [--without-texts] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.core.serializers.json import DjangoJSONEncoder

from hooks.management.hooks_command import HooksCommand
from hooks.models import HookReplay
from hooks.models.replay import ReplayState
from hooks.selectors import policy_named
from hooks.services.columns import policy_of
from hooks.services.replay_report import ReplayReport, ReplayViewer, replay_report, report_written
from hooks.services.replay_slices import replay_finish
from hooks.services.replays import SPANS, replay_cancel, replay_create

_OPERATOR = ReplayViewer(sees_everybody=True, sees_texts=True)


class Command(HooksCommand):
    help = "Tell what a policy would have done to past requests; nothing is done, and no webhook is called."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="a policy's name")
        parser.add_argument("--span", choices=list(SPANS), default="day", help="how far back (day)")
        parser.add_argument("--without-texts", action="store_true", help="look at no kept text")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        policy = policy_of(policy_named(options["name"]))
        looks = not options["without_texts"]
        row = replay_create(policy=policy, span=options["span"], looks_at_texts=looks, is_draft=False)
        try:
            row = replay_finish(replay_id=row.pk, told=self._tell)
        except KeyboardInterrupt:
            row = replay_cancel(replay_id=row.pk)
        if row.state == ReplayState.WAITING:
            replay_cancel(replay_id=row.pk)
            raise CommandError("Too many replays run just now; try again when one has ended.")
        if row.state == ReplayState.RUNNING:
            raise CommandError("A worker goes on with it: the admin shows it, at its policy.")
        report = replay_report(row, _OPERATOR)
        if options["json"]:
            self.stdout.write(DjangoJSONEncoder(ensure_ascii=False).encode(report_written(report)))
        else:
            for line in _lines(report):
                self.stdout.write(line)
        if row.state == ReplayState.FAILED:
            raise CommandError(f"It was not finished: {row.reason}.")

    def _tell(self, row: HookReplay) -> None:
        self.stderr.write(f"{row.tally['num_records']:,} of {row.num_total:,} records")


def _lines(report: ReplayReport) -> list[str]:
    tally = report.tally
    lines = [
        f"{tally.num_records:,} records: {tally.num_full:,} evaluated fully, "
        f"{tally.num_by_condition:,} without text, {tally.num_not_evaluated:,} not evaluated, "
        f"{tally.num_unasked:,} not asked about.",
        f"{tally.num_matched:,} matched, {tally.num_failed:,} failed, "
        f"{report.num_unmatched:,} did not match.",
    ]
    for title, counted in (
        ("Would be done", report.actions),
        ("Webhooks that would have been asked", report.webhooks),
        ("Left out", report.left_out),
        ("Failed", report.failures),
        ("Not evaluated", report.not_evaluated),
        ("Not asked about", report.unasked),
        ("Models", report.models),
        ("Teams", report.teams),
        ("Keys", report.keys),
    ):
        lines += [f"{title}: {num:,} {name}" for name, num in counted]
    if tally.num_text_matches:
        lines.append(f"Masked: {tally.num_text_matches:,} places in {tally.num_masked:,} requests")
    return lines
