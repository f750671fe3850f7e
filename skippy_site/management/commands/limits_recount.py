"""manage.py limits_recount"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from django.core.management.base import BaseCommand, CommandError

from accounts.limits.contracts import LimitsUnavailable
from skippy_site.limit_store import make_limit_store


class Command(BaseCommand):
    help = "Count the token budgets anew from the records. Safe while the service runs."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            num_counters = asyncio.run(self._recount())
        except LimitsUnavailable as error:
            raise CommandError(f"The database could not be asked: {error}.") from None
        self.stdout.write(f"{num_counters} counters were counted anew.")

    async def _recount(self) -> int:
        store = make_limit_store(uuid4())
        try:
            return await store.recount()
        finally:
            await store.close()
