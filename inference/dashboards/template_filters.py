"""How templates write numbers."""

from __future__ import annotations

from django.template import Library
from django.utils.html import format_html

from inference.dashboards import figures
from inference.dashboards.query import DashboardQuery

register = Library()
register.filter("count", figures.count_text)
register.filter("seconds", figures.seconds_text)
register.filter("money", figures.money_text)


@register.filter
def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


@register.filter
def faulty(query: DashboardQuery, name: str) -> str:
    """The attributes of a field in which something was not understood: they lead to what is said of it."""
    if all(problem.field != name for problem in query.problems):
        return ""
    return format_html(' aria-invalid="true" aria-describedby="problem-{}"', name)
