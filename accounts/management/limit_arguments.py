"""Limits on a command line: `--max-tokens-per-day 100000`, `--allowed-models a,b`, `none` for no limit."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from dataclasses import asdict, replace
from ipaddress import ip_network
from typing import Any

from accounts.contracts import Limits, Network

NONE = "none"
_COUNTS = {
    "max_requests_per_minute": "requests in a minute",
    "max_tokens_per_minute": "tokens in a minute, prompt and output together",
    "max_parallel_requests": "requests at once, running and waiting together",
    "max_tokens_per_day": "tokens from midnight (UTC) on",
    "max_tokens_per_week": "tokens from Monday (UTC) on",
    "max_tokens_per_month": "tokens from the first (UTC) on",
}


def add_limit_arguments(parser: ArgumentParser) -> None:
    """One option a limit. What is not given stays as it is."""
    group = parser.add_argument_group("limits", f"a number each, or {NONE!r} for no limit")
    for name, words in _COUNTS.items():
        group.add_argument(_option(name), type=_count, metavar="N", help=words)
    group.add_argument(
        "--budget-alert-percent",
        type=int,
        metavar="N",
        help="share of a budget from which on its use is told",
    )
    group.add_argument(
        "--allowed-models", type=_names, metavar="ID,ID", help="the only models that may be used"
    )
    group.add_argument(
        "--allowed-networks", type=_networks, metavar="NET,NET", help="the only networks it may be used from"
    )


def limits_from(options: Mapping[str, Any], *, before: Limits) -> Limits:
    """`before` with what the options say; their values were read by the parser."""
    given = {name: options[name] for name in asdict(Limits()) if options.get(name) is not None}
    return replace(before, **{name: None if value == NONE else value for name, value in given.items()})


def has_limits(options: Mapping[str, Any]) -> bool:
    return any(options.get(name) is not None for name in asdict(Limits()))


def limits_summary(limits: Limits) -> dict[str, object]:
    """What commands print of limits: only those that there are."""
    counts = {name: getattr(limits, name) for name in _COUNTS if getattr(limits, name) is not None}
    summary: dict[str, object] = {**counts}
    if any(name.startswith("max_tokens_per_") and name != "max_tokens_per_minute" for name in counts):
        summary["budget_alert_percent"] = limits.budget_alert_percent
    if limits.allowed_models:
        summary["allowed_models"] = list(limits.allowed_models)
    if limits.allowed_networks:
        summary["allowed_networks"] = [str(network) for network in limits.allowed_networks]
    return summary


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _count(text: str) -> int | str:
    if text == NONE:
        return NONE
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ArgumentTypeError(f"a whole number, or {NONE!r}")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return () if text == NONE else tuple(part.strip() for part in text.split(",") if part.strip())


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(part) for part in _names(text))
    except ValueError:
        raise ArgumentTypeError("networks as 10.0.0.0/8 or 2001:db8::/32, with commas between them") from None
