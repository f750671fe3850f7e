"""The numbers at the top of the page of usage, each against the period before."""

from __future__ import annotations

from inference.dashboards import figures
from inference.dashboards.figures import Card
from inference.dashboards.viewer import Viewer
from inference.usage.breakdowns import SliceLatencies, SliceOverview, SliceParties
from inference.usage.slices import SliceTotals


def active_card(parties: SliceParties, viewer: Viewer) -> Card:
    """How many have made requests."""
    num_keys = figures.count_text(len(parties.keys))
    if not viewer.sees_everybody:
        return Card("Keys in use", num_keys)
    return Card("Active users", figures.count_text(len(parties.users)), f"with {num_keys} keys")


def overview_cards(
    found: SliceOverview,
    before: SliceTotals,
    latencies: SliceLatencies,
    earlier: SliceLatencies,
    *,
    has_spend: bool,
) -> tuple[Card, ...]:
    now = found.totals
    num_refused = sum(portion.totals.num_requests for portion in found.refusals)

    def counted(title: str, name: str, note: str = "") -> Card:
        value, past = getattr(now, name), getattr(before, name)
        return Card(title, figures.count_text(value), note, figures.change_text(value, past))

    def timed(title: str, name: str) -> Card:
        one = getattr(latencies, name)
        rest = " · ".join(
            f"{label} {figures.seconds_text(one.quantile_s(share))}" for label, share in figures.QUANTILES[1:]
        )
        past = getattr(earlier, name).quantile_s(0.5)
        return Card(
            title,
            figures.seconds_text(one.quantile_s(0.5)),
            f"median · {rest}",
            figures.change_text(one.quantile_s(0.5), past),
        )

    per_token = latencies.per_token.quantile_s(0.5)
    cards = [
        counted("Requests", "num_requests"),
        counted(
            "Not completed",
            "num_unfinished",
            f"{figures.share_text(now.num_unfinished, now.num_requests)} of requests · "
            f"refused {figures.count_text(num_refused)}, "
            f"failed {figures.count_text(now.num_unfinished - num_refused)}",
        ),
        counted(
            "Input tokens",
            "num_input_tokens",
            f"{figures.share_text(now.num_cached_tokens, now.num_input_tokens)} cached",
        ),
        counted("Output tokens", "num_output_tokens"),
        timed("Time to first token", "first_token"),
        timed("Total time", "total"),
        Card(
            "Tokens per second",
            "–" if not per_token else figures.count_text(round(1 / per_token, 1)),
            "of one answer, median",
        ),
    ]
    if has_spend:
        change = figures.change_text(now.spend, before.spend)
        cards.append(Card("Spend", figures.money_text(now.spend), "at the models' prices", change))
    return tuple(cards)
