"""When budgets begin anew: the calendar's days, weeks and months in UTC.

A calendar of the operator's own would be kinder to people and worse for sums: days would have 23 or
25 hours, and records of one month would lie in two.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from accounts.contracts import BudgetPeriod


def period_start(period: BudgetPeriod, now: float) -> date:
    """The first day of the period that `now` (Unix seconds) lies in."""
    day = datetime.fromtimestamp(now, UTC).date()
    match period:
        case BudgetPeriod.DAY:
            return day
        case BudgetPeriod.WEEK:
            return day - timedelta(days=day.weekday())
        case BudgetPeriod.MONTH:
            return day.replace(day=1)


def seconds_left(period: BudgetPeriod, now: float) -> float:
    """Seconds from `now` to the period's end."""
    start = period_start(period, now)
    match period:
        case BudgetPeriod.DAY:
            end = start + timedelta(days=1)
        case BudgetPeriod.WEEK:
            end = start + timedelta(weeks=1)
        case BudgetPeriod.MONTH:
            end = (start + timedelta(days=31)).replace(day=1)
    return instant_of(end) - now


def instant_of(day: date) -> float:
    """Unix seconds of a day's first moment."""
    return datetime.combine(day, time(), UTC).timestamp()
