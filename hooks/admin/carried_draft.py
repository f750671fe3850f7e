"""What stands in a policy's form when a page is opened from it: not saved, and carried along in that page."""

from __future__ import annotations

from django.http import HttpRequest

from hooks.admin.policy_form import HookPolicyForm
from hooks.models import HookPolicy

# Fields of the pages' own forms, beside those of the policy.
_OWN = ("trial-", "replay-", "_", "csrf")


def carried_draft(request: HttpRequest) -> tuple[HookPolicyForm | None, list[tuple[str, str]]]:
    """The form with what was posted of a policy, None without, and its fields for the next page."""
    given = request.POST
    if "condition" not in given:
        return None, []
    carried = [(name, value) for name in given if not name.startswith(_OWN) for value in given.getlist(name)]
    return HookPolicyForm(given, instance=drafted_row(request)), carried


def drafted_row(request: HttpRequest) -> HookPolicy | None:
    """The saved policy whose form it was, None for a new one."""
    written = request.POST.get("draft_of", "") or request.GET.get("policy", "")
    if not (written.isascii() and written.isdigit() and len(written) < 19):
        return None
    found: HookPolicy | None = HookPolicy.objects.filter(pk=int(written)).first()
    return found
