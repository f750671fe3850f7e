"""Models that come and go on a live service while another one answers all the time."""

from __future__ import annotations

import json
import threading
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
PATIENCE_S = 100.0


class Operator:
    """Sets models up through the management API."""

    def __init__(self, service: LiveService) -> None:
        arguments = ("--user", "operator", "--name", "models", "--scope", "models", "--json")
        key = json.loads(service.manage("api_key_create", *arguments))["key"]
        self.api = httpx.Client(
            base_url=f"{service.url}/api", headers={"Authorization": f"Bearer {key}"}, timeout=30
        )

    def add(self, model_id: str, source: Path, **fields: Any) -> int:
        body = {"model_id": model_id, "source": str(source), "engine": ENGINE, **fields}
        answer = self.api.post("/models", json=body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def change(self, row_id: int, **fields: Any) -> None:
        answer = self.api.patch(f"/models/{row_id}", json=fields)
        assert answer.status_code == 200, answer.text

    def say(self, row_id: int, word: str) -> None:
        answer = self.api.post(f"/models/{row_id}/{word}")
        assert answer.status_code == 202, answer.text

    def status(self, row_id: int) -> tuple[str, str]:
        """The state and its cause, once the process goes by the row as it is now."""
        told = self.api.get(f"/models/{row_id}/status").json()
        for status in told["status"]:
            if status["revision"] == told["revision"]:
                return status["state"], status["cause"]
        return "", ""

    def until(self, row_id: int, state: str) -> None:
        until(lambda: self.status(row_id)[0] == state, what=lambda: f"{state}: {self.status(row_id)}")


ENGINE = {"lanes": 2, "context": 1024, "threads": 1}


def until(condition: Callable[[], object], *, what: Callable[[], object]) -> None:
    deadline_ts = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_ts, what()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(default_model_path(), tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(params=["daphne", "uvicorn"], scope="module")
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny: Path
) -> Iterator[LiveService]:
    made = start_service(
        tmp_path_factory.mktemp(f"many-{request.param}"),
        request.param,
        SKIPPY_MODEL_PATH=str(tiny),
        SKIPPY_MODEL_ID="first",
        SKIPPY_THREADS="1",
        SKIPPY_LANES="4",
        SKIPPY_CONTEXT="4096",
        SKIPPY_DRAIN_GRACE_S="2",
    )
    yield made
    stop_service(made)


@pytest.fixture(scope="module")
def operator(service: LiveService) -> Iterator[Operator]:
    made = Operator(service)
    yield made
    made.api.close()


class SteadyLoad:
    """Streams of the first model, one after the other on each of some threads, until the end of it."""

    def __init__(self, service: LiveService, *, num_threads: int = 3) -> None:
        self._service = service
        self._is_over = threading.Event()
        self.faults: list[str] = []
        self.num_answers = 0
        self._threads = [threading.Thread(target=self._run) for _ in range(num_threads)]

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                fields = {"model": "first", "max_tokens": 24, "ignore_eos": True}
                events = self._service.events(messages=[{"role": "user", "content": "hi"}], **fields)
                assert events[-1] == "[DONE]", events[-1]
                assert events[-2]["choices"][0]["finish_reason"] == "length", events[-2]
                self.num_answers += 1
            except Exception as fault:
                self.faults.append(repr(fault))

    def __enter__(self) -> SteadyLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


def ask(service: LiveService, model: str, **fields: Any) -> httpx.Response:
    messages = [{"role": "user", "content": "hi"}]
    return service.post(
        "/chat/completions", {"model": model, "messages": messages, "max_tokens": 2, **fields}
    )


def listed(service: LiveService) -> dict[str, str]:
    data = httpx.get(f"{service.url}/v1/models", headers=service.auth, timeout=30).json()["data"]
    return {model["id"]: model["state"] for model in data}


def test_a_model_comes_and_goes_while_another_one_answers(
    service: LiveService, operator: Operator, tiny: Path
) -> None:
    row_id = operator.add("second", tiny, load_policy="by_hand", aliases=["zwei"])
    with SteadyLoad(service) as load:
        for _ in range(3):
            operator.say(row_id, "load")
            operator.until(row_id, "ready")
            assert ask(service, "second").status_code == 200
            assert ask(service, "zwei").json()["model"] == "second"
            assert listed(service) == {"first": "ready", "second": "ready"}
            operator.say(row_id, "unload")
            operator.until(row_id, "unloaded")
            refused = ask(service, "second")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "service_unavailable")
            assert refused.headers["retry-after"]
        operator.api.delete(f"/models/{row_id}")
        until(lambda: ask(service, "second").status_code == 404, what=lambda: listed(service))
    assert load.faults == []
    assert load.num_answers > 3
    assert list(httpx.get(f"{service.url}/readyz", timeout=10).json()["statistics"]["models"]) == ["first"]


def test_the_first_of_many_requests_loads_a_model_on_demand(
    service: LiveService, operator: Operator, tiny: Path
) -> None:
    row_id = operator.add("demand", tiny, load_policy="on_demand", idle_unload_s=1.0)
    until(lambda: "demand" in listed(service), what=lambda: listed(service))
    answers: list[int] = []
    streamed = threading.Thread(
        target=lambda: answers.append(
            200
            if service.events(
                model="demand", max_tokens=2, ignore_eos=True, messages=[{"role": "user", "content": "hi"}]
            )[-1]
            == "[DONE]"
            else 0
        )
    )
    asking = [
        threading.Thread(target=lambda: answers.append(ask(service, "demand").status_code)) for _ in range(4)
    ]
    for thread in (streamed, *asking):
        thread.start()
    for thread in (streamed, *asking):
        thread.join(PATIENCE_S)
    assert answers == [200] * 5
    metrics = httpx.get(f"{service.url}/metrics", timeout=10).text
    for model in ("first", "demand"):
        assert f'skippy_lanes{{model_name="{model}"}}' in metrics
    operator.until(row_id, "unloaded")
    assert ask(service, "demand").status_code == 200
    operator.api.delete(f"/models/{row_id}")


def test_a_model_that_cannot_be_loaded_takes_nothing_from_the_others(
    service: LiveService, operator: Operator, tiny: Path
) -> None:
    too_large = operator.add("large", tiny, engine={**ENGINE, "context": 16_000_000, "kv_type_k": "f32"})
    operator.until(too_large, "failed")
    assert "does not fit" in operator.status(too_large)[1] or "KV cells" in operator.status(too_large)[1]
    ready = httpx.get(f"{service.url}/readyz", timeout=10)
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert any("large" in reason for reason in ready.json()["reasons"])
    refused = ask(service, "large")
    assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
    assert ask(service, "first").status_code == 200
    # What was wrong is put right in its row.
    operator.change(too_large, engine=ENGINE)
    operator.until(too_large, "ready")
    assert ask(service, "large").status_code == 200
    operator.api.delete(f"/models/{too_large}")
    until(
        lambda: httpx.get(f"{service.url}/readyz", timeout=10).json()["status"] != "degraded",
        what=lambda: httpx.get(f"{service.url}/readyz", timeout=10).text,
    )


def test_who_uses_a_model_that_goes_may_end_and_the_rest_is_told_in_band(
    service: LiveService, operator: Operator, tiny: Path
) -> None:
    row_id = operator.add("going", tiny, engine={**ENGINE, "context": 16_384})
    operator.until(row_id, "ready")
    events: list[Any] = []
    fields: dict[str, Any] = {"model": "going", "max_tokens": 15_000, "ignore_eos": True}
    streaming = threading.Thread(
        target=lambda: events.extend(
            service.events(messages=[{"role": "user", "content": "hi"}], timeout_s=60, **fields)
        )
    )
    streaming.start()
    statistics = f"{service.url}/readyz"

    def num_leases() -> int:
        models = httpx.get(statistics, timeout=10).json()["statistics"]["models"]
        return int(models.get("going", {}).get("num_leases", 0))

    until(lambda: num_leases() == 1, what=num_leases)
    operator.say(row_id, "unload")
    streaming.join(PATIENCE_S)
    assert events[-1] == "[DONE]"
    operator.until(row_id, "unloaded")
    assert "error" in events[-2] or events[-2]["choices"][0]["finish_reason"] == "length"
    operator.api.delete(f"/models/{row_id}")
