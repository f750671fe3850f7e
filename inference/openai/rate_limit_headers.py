"""OpenAI's six headers that tell a caller how much of its minute is left.

https://platform.openai.com/docs/guides/rate-limits (headers): limits and what remains are numbers,
resets are durations as Go writes them ("1s", "6m0s").
"""

from __future__ import annotations

from math import ceil

from inference.openai.errors import Header


def rate_limit_headers(name: str, *, limit: int, remaining: int, reset_s: float) -> tuple[Header, ...]:
    """The three of `name` ("requests" or "tokens")."""
    return (
        (f"x-ratelimit-limit-{name}".encode(), str(limit).encode()),
        (f"x-ratelimit-remaining-{name}".encode(), str(remaining).encode()),
        (f"x-ratelimit-reset-{name}".encode(), duration(reset_s).encode()),
    )


def duration(seconds: float) -> str:
    """Whole seconds, rounded up: whoever waits that long does not come too early."""
    minutes, rest = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
