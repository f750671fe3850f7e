"""The page on which the admin shows who changed a thing: from the history of changes, which every door
writes, and not from Django's own log, which knows the admin alone."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from accounts.audit import audited_kind
from accounts.history import changes_of

MAX_SHOWN = 200


class HistoryPage:
    """For a ModelAdmin whose model is audited; before it in the class's bases."""

    def changes(self, row: Any) -> Any:
        """A query set of AdministrativeChange: what the page shows of a row, newest first."""
        return changes_of(subject_kind=audited_kind(type(row)), subject_id=row.pk)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        model_admin: Any = self
        row = model_admin.get_object(request, unquote(object_id), None)
        if row is None:
            raise Http404
        if not model_admin.has_view_or_change_permission(request, row):
            raise PermissionDenied
        found = list(self.changes(row)[: MAX_SHOWN + 1])
        own_kind = audited_kind(type(row))
        context = {
            **model_admin.admin_site.each_context(request),
            "title": f"Changes of {row}",
            "opts": model_admin.opts,
            "object": row,
            "changes": [(one, _subject(one, own_kind), change_lines(one)) for one in found[:MAX_SHOWN]],
            "has_more": len(found) > MAX_SHOWN,
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/changes.html", context)


def _subject(change: Any, own_kind: str) -> str:
    """What was changed, where it is not the thing itself."""
    if change.subject_kind == own_kind:
        return ""
    return f"{change.subject_kind.replace('_', ' ')} {change.subject_label}"


def change_lines(change: Any) -> list[tuple[str, str, str]]:
    """Of each column: its name, and from what to what, as JSON."""
    return [
        (name, json.dumps(pair[0], ensure_ascii=False), json.dumps(pair[1], ensure_ascii=False))
        for name, pair in change.changes.items()
    ]
