"""`manage.py usage_rebuild`: makes hourly usage anew from the records of a time."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from inference.usage.rebuild import usage_rebuild


class Command(BaseCommand):
    help = "Make the hourly usage of a time anew from its records. Hours of which records are gone are kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--from", dest="start", required=True, help="ISO 8601; UTC where it has no zone")
        parser.add_argument(
            "--to", dest="end", default="", help="the same, exclusive; default: the next hour"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        start = _instant(options["start"], "--from")
        end = _instant(options["end"], "--to") if options["end"] else timezone.now() + timedelta(hours=1)
        if end <= start:
            raise CommandError("--to must be later than --from")
        rebuilt = usage_rebuild(start_at=start, end_at=end)
        self.stdout.write(f"counted {rebuilt.num_records} records")
        if rebuilt.kept_hours:
            first, last = rebuilt.kept_hours[0], rebuilt.kept_hours[-1]
            self.stdout.write(
                f"left {len(rebuilt.kept_hours)} hours as they were ({first:%Y-%m-%d %H:%M} to "
                f"{last:%Y-%m-%d %H:%M} UTC): not all of their records are there any more"
            )


def _instant(text: str, option: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{option}: not an ISO 8601 date or time") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
