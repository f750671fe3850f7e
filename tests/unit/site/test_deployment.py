"""What lies in docs/deployment names only what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference.domain.ledger import LedgerStatistics
from inference.domain.outcomes import Outcome
from inference.telemetry.prometheus import ModelGauges, RequestMetrics
from skippy_site.env import Environment, variable_name

FOLDER = Path(__file__).parents[3] / "docs" / "deployment"
_METRIC = re.compile(r"\b(?:vllm:|skippy_)[a-z0-9_:]+")
_SETTING = re.compile(r"\bSKIPPY_[A-Z0-9_]+")


@pytest.fixture(scope="module")
def metrics() -> frozenset[str]:
    """The names of all samples that there can be."""
    now = RequestMetrics(list)
    now.watch_webhooks(lambda: [])
    text = now.exposition([ModelGauges("m", True)], (), LedgerStatistics()).decode()
    found: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return frozenset(found)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_ask_for_metrics_that_there_are(rule: dict[str, Any], metrics: frozenset[str]) -> None:
    named = set(_METRIC.findall(rule["expr"]))
    assert named <= metrics
    assert named or rule["expr"].startswith("up{")
    assert rule["annotations"]["summary"] and rule["labels"]["severity"]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_the_board_shows_metrics_that_there_are(panel: dict[str, Any], metrics: frozenset[str]) -> None:
    for target in panel["targets"]:
        named = set(_METRIC.findall(target["expr"]))
        assert named and named <= metrics
        assert target["expr"].count("(") == target["expr"].count(")")


def test_outcomes_in_alerts_are_ours() -> None:
    (rule,) = [one for one in rules() if one["alert"] == "SkippyErrors"]
    named = set(re.findall(r"[a-z_]+", re.findall(r'outcome=~"([^"]+)"', rule["expr"])[0]))
    assert named <= {outcome.value for outcome in Outcome}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no Prometheus on this machine")
def test_prometheus_understands_rules_configuration_and_what_the_board_asks(tmp_path: Path) -> None:
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    filled = [
        query.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$model", ".*")
        for query in queries
    ]
    asked = [{"record": f"board:query_{place}", "expr": query} for place, query in enumerate(filled)]
    assert not any("$" in query for query in filled)
    board = tmp_path / "board.yml"
    board.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": asked}]}))
    for command in (
        ["rules", board],
        ["rules", FOLDER / "alerts.yml"],
        ["config", FOLDER / "prometheus.yml"],
    ):
        done = subprocess.run(
            ["promtool", "check", *map(str, command)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_has_all_that_the_service_needs() -> None:
    root = FOLDER.parents[1]
    text = (FOLDER / "Containerfile").read_text()
    copied = {
        name for line in re.findall(r"^COPY --chown=skippy (.+) \S+$", text, re.M) for name in line.split()
    }
    assert copied and all((root / name).exists() for name in copied)
    ignored = set((FOLDER / "Containerfile.dockerignore").read_text().split())
    assert not copied & ignored
    # What is at the top of the checkout is copied, or left out on purpose.
    left_out = {"tests", "benchmarks", "docs", "README.md", "CHANGELOG.md"}
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False).stdout
    if not listed:
        pytest.skip("not a checkout of git")
    tracked = {line.partition("/")[0] for line in listed.splitlines() if not line.startswith(".")}
    assert tracked <= copied | left_out


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_settings_that_are_named_are_ours(path: Path) -> None:
    known = {variable_name(field) for field in Environment.__struct_fields__} | {"SKIPPY_HOME"}
    assert set(_SETTING.findall(path.read_text())) <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """All of it but the program, which is not in /opt here."""
    unit = (FOLDER / "skippy.service").read_text()
    (tmp_path / "skippy.service").write_text(unit.replace("/opt/skippy/.venv/bin/python", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "skippy.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "skippy.service" in line]
    assert ours == []
