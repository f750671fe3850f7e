"""What can be written into a policy, shown beside its form: the same tables that check it."""

from __future__ import annotations

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from hooks.action_form.forms import ACTION_FORMS, ActionForm
from hooks.action_form.window import BOUNDS, window_written
from hooks.conditions import VARIABLES
from hooks.contracts.actions import ACTIONS_AT
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import WindowRule


def variables_help() -> SafeString:
    """Names, types, meanings and points of all that a condition may speak of."""
    return format_html_join(
        "\n",
        "<div><code>{}</code> {}: {} ({})</div>",
        [(one.name, one.cel_type, one.meaning, _points(one.points)) for one in VARIABLES],
    )


def actions_help() -> SafeString:
    """Types and fields of actions, and the points at which each makes sense."""
    return format_html_join(
        "\n",
        "<div><code>{}</code> {} ({})</div>",
        [
            (
                form.kind,
                _fields(form),
                _points({point for point in HookPoint if form.action in ACTIONS_AT[point]}),
            )
            for form in ACTION_FORMS
        ],
    )


def window_help() -> SafeString:
    """Fields of a window rule, as usual and at most."""
    usual = window_written(WindowRule())
    return format_html_join(
        "\n",
        "<div><code>{}</code> {} to {}, as a rule {}</div>",
        [(name, least, most, usual[name]) for name, (least, most) in BOUNDS.items()],
    )


def _fields(form: ActionForm) -> str:
    return ", ".join([one.name if one.is_required else f"{one.name}?" for one in form.fields])


def _points(points: frozenset[HookPoint] | set[HookPoint]) -> str:
    if len(points) == len(HookPoint):
        return "everywhere"
    return ", ".join([point.value for point in HookPoint if point in points])
