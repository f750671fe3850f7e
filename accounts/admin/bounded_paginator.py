"""Pages of lists that only grow."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.utils.functional import cached_property

MAX_COUNTED = 10_000


class BoundedPaginator(Paginator):
    """Counts no further than people turn pages: counting a table that only grows takes ever longer."""

    @cached_property
    def count(self) -> int:
        return self.object_list.order_by()[:MAX_COUNTED].count()
