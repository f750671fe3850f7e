"""How templates write numbers."""

from __future__ import annotations

from django.template import Library

from inference.dashboards import figures

register = Library()
register.filter("count", figures.count_text)
register.filter("seconds", figures.seconds_text)
register.filter("money", figures.money_text)


@register.filter
def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
