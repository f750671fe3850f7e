"""Does the adaptive limit find the number of requests at once that serves best?

    .venv/bin/python benchmarks/adaptive_limit.py [--requests 4000] [--seeds 3] [--write]

The real admission, rule and limiter serve a simulated engine on a fake clock (simulated_engine.py), with
others always waiting, 16 lanes, and work that varies by ±20 %. t(n) is the time for a token of each
when n run:

    flat         t = 10 ms: each lane more serves more
    linear       t = 1.25 n ms: lanes only share, one serves as much as 16
    saturating   t = 10 ms up to 8, then it grows with n: the 9th lane adds nothing but waiting
    concave      t = 5 + n ms: each lane adds a little less than the one before, as on a CPU

Each is compared with all fixed limits; the adaptive one starts with all lanes. Reported are tokens per
second and the 95th percentile of latency (from start to end), of all but the first quarter of the
requests, in which it finds its way. --write puts the result beside this file, and the limit over time as
a picture.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from benchmarks.simulated_engine import Curve, Run, simulate  # noqa: E402
from inference.admission.concurrency import ConcurrencySettings  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "adaptive_limit.json"
PICTURE = Path(__file__).parent / "results" / "adaptive_limit.svg"
NUM_LANES, NOISE = 16, 0.20
CURVES: dict[str, Curve] = {
    "flat": lambda n: 0.010,
    "linear": lambda n: 0.00125 * n,
    "saturating": lambda n: 0.010 * max(1.0, n / 8),
    "concave": lambda n: 0.005 + 0.001 * n,
}
COLOURS = {"flat": "#1f77b4", "linear": "#d62728", "saturating": "#2ca02c", "concave": "#9467bd"}
Limits = Sequence[tuple[float, int]]
WIDTH, HEIGHT, MARGIN = 800, 360, 48


def measure(curve: Curve, *, num_requests: int, num_seeds: int) -> tuple[dict[str, Any], Run]:
    """Medians over the seeds, and one of the adaptive runs."""
    fixed: dict[int, Run] = {}
    for limit in range(1, NUM_LANES + 1):
        fixed[limit] = simulate(
            curve,
            ConcurrencySettings(),
            num_lanes=limit,
            num_requests=num_requests // 4,
            noise=NOISE,
            seed=0,
        )
    settings = ConcurrencySettings(is_adaptive=True)
    adaptive = [
        simulate(curve, settings, num_lanes=NUM_LANES, num_requests=num_requests, noise=NOISE, seed=seed)
        for seed in range(1, num_seeds + 1)
    ]
    best = max(fixed, key=lambda limit: fixed[limit].tokens_per_s)
    served = statistics.median(run.tokens_per_s for run in adaptive)
    latency_s = statistics.median(run.p95_latency_s for run in adaptive)
    decisions = Counter(f"{one.action.value}/{one.reason.value}" for run in adaptive for one in run.decisions)
    found = {
        "best_fixed_limit": best,
        "best_fixed_tokens_per_s": round(fixed[best].tokens_per_s, 1),
        "all_lanes_p95_latency_s": round(fixed[NUM_LANES].p95_latency_s, 3),
        "adaptive_tokens_per_s": round(served, 1),
        "adaptive_tokens_per_s_of_seeds": [round(run.tokens_per_s, 1) for run in adaptive],
        "adaptive_p95_latency_s": round(latency_s, 3),
        "adaptive_p95_latency_s_of_seeds": [round(run.p95_latency_s, 3) for run in adaptive],
        "adaptive_mean_limit": round(statistics.median(run.mean_limit for run in adaptive), 2),
        "throughput_lost": round(1 - served / fixed[best].tokens_per_s, 4),
        "p95_latency_ratio": round(latency_s / fixed[NUM_LANES].p95_latency_s, 3),
        "decisions": dict(decisions.most_common()),
        "fixed": {
            str(limit): [round(run.tokens_per_s, 1), round(run.p95_latency_s, 3)]
            for limit, run in fixed.items()
        },
    }
    return found, adaptive[0]


def picture(title: str, runs: Mapping[str, Limits], colours: Mapping[str, str]) -> str:
    """The limits over time, as steps; each curve's time is scaled to its whole run. A run is instants in
    seconds and the limit from then on; the last instant is its end."""
    inner_width, inner_height = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def x(share: float) -> float:
        return round(MARGIN + share * inner_width, 1)

    def y(limit: float) -> float:
        return round(HEIGHT - MARGIN - limit / NUM_LANES * inner_height, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="20">{title}</text>',
    ]
    for limit in range(0, NUM_LANES + 1, 4):
        parts.append(f'<path d="M{x(0)} {y(limit)}H{x(1)}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 22}" y="{y(limit) + 4}">{limit}</text>')
    for index, (name, limits) in enumerate(runs.items()):
        end_s = limits[-1][0]
        path = f"M{x(0)} {y(limits[0][1])}"
        for at_s, limit in limits[1:]:
            path += f"H{x(at_s / end_s)}V{y(limit)}"
        parts.append(f'<path d="{path}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
        left = MARGIN + 130 * index
        parts.append(f'<text x="{left}" y="{HEIGHT - 14}" fill="{colours[name]}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--requests", type=int, default=4000)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    found: dict[str, dict[str, Any]] = {}
    runs: dict[str, Run] = {}
    for name, curve in CURVES.items():
        found[name], runs[name] = measure(curve, num_requests=chosen.requests, num_seeds=chosen.seeds)
        told = {key: value for key, value in found[name].items() if key not in ("fixed", "decisions")}
        print(name, json.dumps(told, indent=1))
    if chosen.write:
        result = {
            "command": f"benchmarks/adaptive_limit.py --requests {chosen.requests} --seeds {chosen.seeds}",
            "lanes": NUM_LANES,
            "noise": NOISE,
            "curves": found,
        }
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
        title = "Requests at once over the run (time as a share of it), simulated, starting with 16 lanes"
        PICTURE.write_text(picture(title, {name: run.limits for name, run in runs.items()}, COLOURS))


if __name__ == "__main__":
    main()
