"""Models are added, used, closed, unloaded and removed while the service runs, by command and by API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.api.conftest import LiveService, start_service, stop_service
from tests.model.tiny_model import write_tiny_model
from tests.model_files import default_model_path

pytestmark = pytest.mark.timeout(400)
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(default_model_path(), tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[LiveService]:
    live = start_service(
        tmp_path_factory.mktemp("models-service"),
        "daphne",
        SKIPPY_MODEL_PATH=str(tiny),
        SKIPPY_MODEL_ID="first",
        SKIPPY_CONTEXT="2048",
        SKIPPY_LANES="2",
    )
    yield live
    stop_service(live)


def until(condition: Callable[[], bool]) -> None:
    """Rows are read every second, and keys remembered for some."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def asked(service: LiveService, model: str, **fields: Any) -> httpx.Response:
    return service.post(
        "/chat/completions",
        {"model": model, "messages": [{"role": "user", "content": "Say hi"}], "ignore_eos": True, **fields},
    )


def status_of(service: LiveService, model: str) -> int:
    return asked(service, model, max_tokens=1).status_code


def test_the_first_row_is_what_the_environment_said(service: LiveService, tiny: Path) -> None:
    (row,) = json.loads(service.manage("model_list", "--json"))
    assert (row["model_id"], row["source"], row["is_default"]) == ("first", str(tiny), True)
    assert row["has_embeddings"]
    assert [one["state"] for one in row["status"]] == ["ready"]


def test_a_second_one_is_added_used_closed_unloaded_and_removed(service: LiveService, tiny: Path) -> None:
    added = json.loads(
        service.manage(
            "model_add",
            "org/second",
            str(tiny),
            "--alias=other",
            "--policy=by_hand",
            "--engine=lanes=1",
            "--engine=context=512",
            '--chat-defaults={"max_tokens": 3, "max_tokens_ceiling": 5, "temperature": 0.25}',
            '--completion-defaults={"max_tokens": 2}',
            "--load",
            "--wait",
            "--json",
        )
    )
    assert [one["state"] for one in added["status"]] == ["ready"]

    # By its id and its alias, with "@main" too; what a request leaves out is what the row says.
    for name in ("org/second", "org/second@main", "other", "other@main"):
        answer = asked(service, name)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == "org/second"
        assert answer.json()["usage"]["completion_tokens"] == 3
    assert asked(service, "other", max_tokens=4).json()["usage"]["completion_tokens"] == 4
    assert asked(service, "other", max_tokens=400).json()["usage"]["completion_tokens"] == 5
    completion = service.post("/completions", {"model": "other", "prompt": "x", "ignore_eos": True})
    assert completion.json()["usage"]["completion_tokens"] == 2
    shown = httpx.get(f"{service.url}/v1/models/org/second", headers=service.auth, timeout=30).json()
    assert (shown["default_sampling"]["temperature"], shown["context_length"]) == (0.25, 512)
    assert asked(service, "nobody").status_code == 404

    # What changes without a new load holds at once.
    service.manage("model_set", "other", '--chat-defaults={"max_tokens": 1}')
    until(lambda: asked(service, "other").json()["usage"]["completion_tokens"] == 1)

    # Who may use it: nobody, then a team, then a key.
    service.manage("model_set", "other", "--no-open")
    until(lambda: status_of(service, "other") == 404)
    assert httpx.get(f"{service.url}/v1/models/other", headers=service.auth, timeout=30).status_code == 404
    service.manage("team_set", "friends", "--add", "ada")
    service.manage("model_set", "other", "--allow-team=friends")
    until(lambda: status_of(service, "other") == 200)
    service.manage("model_set", "other", "--disallow-team=friends")
    until(lambda: status_of(service, "other") == 404)
    service.manage("model_set", "other", f"--allow-key={service.key[:16]}")
    until(lambda: status_of(service, "other") == 200)

    # Unloaded it is there and cannot be used; the first one serves on.
    service.manage("model_unload", "other", "--wait")
    refused = asked(service, "other")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "service_unavailable")
    assert int(refused.headers["retry-after"]) >= 1
    assert status_of(service, "first") == 200
    assert [one["state"] for one in json.loads(service.manage("model_status", "other", "--json"))] == [
        "unloaded"
    ]

    service.manage("model_remove", "other")
    until(lambda: status_of(service, "other") == 404)
    assert status_of(service, "first") == 200


def test_on_demand_it_is_loaded_by_the_first_request_for_it(service: LiveService, tiny: Path) -> None:
    service.manage(
        "model_add", "lazy", str(tiny), "--policy=on_demand", "--engine=lanes=1", "--engine=context=512"
    )
    until(lambda: status_of(service, "lazy") == 200)
    service.manage("model_remove", "lazy")


def test_the_api_loads_and_unloads_it_and_tells_of_a_failure(
    service: LiveService, tiny: Path, tmp_path: Path
) -> None:
    made = service.manage("api_key_create", "--user", "root", "--name", "x", "--scope", "models", "--json")
    headers = {"Authorization": f"Bearer {json.loads(made)['key']}"}
    file = tmp_path / "copy.gguf"
    file.write_bytes(tiny.read_bytes())

    def call(method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(
            method, f"{service.url}/api/models{path}", json=body, headers=headers, timeout=60
        )

    def states(row_id: int) -> list[tuple[str, str]]:
        told = call("GET", f"/{row_id}/status").json()["status"]
        return [(one["state"], one["cause"]) for one in told]

    body = {"model_id": "api", "source": str(file), "load_policy": "by_hand", "engine": {"context": 512}}
    row_id = call("POST", "", body).json()["id"]
    until(lambda: states(row_id) == [("unloaded", "")])
    assert status_of(service, "api") == 503
    assert call("POST", f"/{row_id}/load").status_code == 202
    until(lambda: states(row_id) == [("ready", "")])
    assert status_of(service, "api") == 200
    assert call("POST", f"/{row_id}/unload").status_code == 202
    until(lambda: states(row_id) == [("unloaded", "")])

    file.write_bytes(b"GGUF\x03\x00\x00\x00")
    assert call("POST", f"/{row_id}/load").status_code == 202
    until(lambda: [state for state, _ in states(row_id)] == ["failed"])
    ((_, cause),) = states(row_id)
    assert cause
    assert status_of(service, "api") == 503
    file.write_bytes(tiny.read_bytes())
    assert call("POST", f"/{row_id}/load").status_code == 202
    until(lambda: states(row_id) == [("ready", "")])
    assert call("DELETE", f"/{row_id}").status_code == 204
    until(lambda: status_of(service, "api") == 404)
    assert status_of(service, "first") == 200
