"""A form that makes a key is sent again by a reload or the way back, and is to make one key all the same."""

from __future__ import annotations

from django.http import HttpRequest

SENT_ALREADY = "That form was sent already. Its key was shown once and is not kept."
# The last few are enough for a reload.
_MAX_KEPT = 20


class SentForms:
    """Ids of forms (`submission_id`) whose key was made, kept in the session under `name`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def has(self, request: HttpRequest) -> bool:
        """Whether what is sent now was sent before."""
        return request.POST.get("submission_id") in request.session.get(self._name, [])

    def note(self, request: HttpRequest, submission_id: str) -> None:
        """Its key is made."""
        sent = [*request.session.get(self._name, []), submission_id]
        request.session[self._name] = sent[-_MAX_KEPT:]
