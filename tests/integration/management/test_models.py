"""/api/models: added, changed and removed while the service runs; loaded and unloaded by word."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts import services
from accounts.models import AdministrativeChange
from accounts.scopes import Scope
from inference.domain.model_settings import ModelState, ModelStatus
from inference.model_rows.reports import model_reports_write
from inference.models import ModelName, ModelRow
from skippy_site.model_rows import serving_process
from tests.integration.management.conftest import Program, error_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def gguf(tmp_path: Path) -> str:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x00" * 16)
    return str(file)


@pytest.fixture
def keeper(program) -> Program:
    return program("keeper", frozenset({Scope.MODELS}))


@pytest.fixture
def row(keeper, gguf) -> ModelRow:
    made = keeper.post("/models", {"model_id": "tiny", "source": gguf})
    return ModelRow.objects.get(pk=made.json()["id"])


class TestAdding:
    def test_all_of_it_is_kept_and_shown(self, keeper, gguf) -> None:
        team = services.team_create(name="t")
        body = {
            "model_id": "org/tiny:8b",
            "aliases": ["tiny", "gpt-4o"],
            "source": gguf,
            "projector_source": "hf:org/repo/mmproj.gguf",
            "is_enabled": True,
            "is_default": True,
            "load_policy": "on_demand",
            "wants_loaded": True,
            "idle_unload_s": 60.0,
            "engine": {"lanes": 2, "context": 1024},
            "admission": {"queue": 12},
            "chat_defaults": {"temperature": 0.4, "chat_template_kwargs": {"a": [1, None]}},
            "completion_defaults": {"max_tokens": 32},
            "has_embeddings": True,
            "speculation": {
                "mode": "prompt_lookup",
                "max_draft_tokens": 5,
                "allows_requests": False,
                "draft_source": "",
            },
            "adapters": [{"name": "x", "source": gguf, "scale": 0.5, "is_default": True}],
            "access": {"is_open": False, "team_ids": [team.pk], "key_ids": [keeper.row.pk]},
        }
        made = keeper.post("/models", body)
        assert made.status_code == 201
        shown = made.json()
        assert {name: shown[name] for name in body} == body
        assert shown["status"] == []
        again = keeper.get(f"/models/{shown['id']}")
        assert (again.json(), again["ETag"]) == (shown, made["ETag"])
        assert keeper.get("/models").json()["data"] == [shown]
        for name in ("org/tiny:8b", "org/tiny@main:8b", "gpt-4o"):
            assert keeper.get(f"/models?name={name}").json()["data"] == [shown]
        assert keeper.get("/models?name=none").json()["data"] == []
        assert keeper.get("/models?is_enabled=false").json()["data"] == []

    def test_two_words_are_enough(self, row) -> None:
        assert (row.model_id, row.load_policy, row.wants_loaded, row.revision) == ("tiny", "always", None, 1)
        assert (row.is_default, row.has_embeddings, row.is_open) == (False, False, True)

    @pytest.mark.parametrize(
        ("change", "param"),
        [
            ({"model_id": None}, "model_id"),
            ({"model_id": ""}, "model_id"),
            ({"model_id": "x" * 201}, "model_id"),
            ({"model_id": "x\u202e"}, "model_id"),
            ({"model_id": "\ud800"}, "model_id"),
            ({"model_id": "x@main"}, "model_id"),
            ({"source": None}, "source"),
            ({"source": "/nothing.gguf"}, "source"),
            ({"source": "https://x/y.gguf"}, "source"),
            ({"aliases": "x"}, "aliases"),
            ({"aliases": [["x"]]}, "aliases.0"),
            ({"aliases": ["x"] * 100}, "aliases"),
            ({"load_policy": "sometimes"}, "load_policy"),
            ({"idle_unload_s": -1}, "idle_unload_s"),
            ({"idle_unload_s": "nan"}, "idle_unload_s"),
            ({"idle_unload_s": 1e300}, "idle_unload_s"),
            ({"engine": []}, "engine"),
            ({"engine": {"lanes": 1000}}, "engine.lanes"),
            ({"engine": {"host": "x"}}, "engine.host"),
            ({"engine": {"lanes": None}}, "engine.lanes"),
            ({"chat_defaults": {"temperature": 9}}, "chat_defaults.temperature"),
            ({"chat_defaults": {"messages": []}}, "chat_defaults.messages"),
            ({"chat_defaults": {"chat_template": "{% if %}"}}, "chat_defaults.chat_template"),
            ({"chat_defaults": {"system_prompt": "\u0000"}}, "chat_defaults"),
            ({"completion_defaults": {"system_prompt": "x"}}, "completion_defaults.system_prompt"),
            ({"speculation": {"mode": "magic"}}, "speculation.mode"),
            ({"speculation": {"mode": "draft_model"}}, "speculation.draft_source"),
            ({"speculation": {"max_draft_tokens": 10**30}}, "speculation.max_draft_tokens"),
            ({"speculation": {"depth": 1}}, "speculation.depth"),
            ({"adapters": [{"name": "x"}]}, "adapters.0.source"),
            ({"adapters": [{"name": "x", "source": "hf:o/r/a.gguf", "scale": "nan"}]}, "adapters.0.scale"),
            ({"adapters": [{"name": "x", "source": "hf:o/r/a.gguf", "rank": 1}]}, "adapters.0.rank"),
            ({"access": {"team_ids": [5]}}, "access.team_ids"),
            ({"access": {"team_ids": [2**70]}}, "access.team_ids.0"),
            ({"access": {"key_ids": [0]}}, "access.key_ids.0"),
            ({"access": {"everybody": True}}, "access.everybody"),
            ({"revision": 7}, "revision"),
            ({"id": 7}, "id"),
            ({"status": []}, "status"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_wrong_is_named(self, keeper, gguf, change, param) -> None:
        body = {"model_id": "tiny", "source": gguf, **change}
        status, _, named = error_of(keeper.post("/models", body))
        assert (status, named) == (400, param)
        assert not ModelRow.objects.exists()

    def test_a_name_that_another_model_has(self, keeper, row, gguf) -> None:
        for body, param in (
            ({"model_id": "tiny"}, "model_id"),
            ({"model_id": "b", "aliases": ["tiny"]}, "aliases"),
        ):
            refused = keeper.post("/models", {"source": gguf, **body})
            assert error_of(refused) == (409, "conflict", param)


class TestChanging:
    def test_what_is_left_out_stays(self, keeper, row, gguf) -> None:
        path = f"/models/{row.pk}"
        keeper.patch(path, {"speculation": {"mode": "prompt_lookup"}, "access": {"is_open": False}})
        shown = keeper.patch(
            path, {"speculation": {"max_draft_tokens": 3}, "access": {"key_ids": [keeper.row.pk]}}
        ).json()
        assert shown["speculation"]["mode"] == "prompt_lookup"
        assert shown["access"] == {"is_open": False, "team_ids": [], "key_ids": [keeper.row.pk]}
        assert shown["revision"] == 3
        adapters = [{"name": "x", "source": gguf}]
        assert keeper.patch(path, {"adapters": adapters}).json()["adapters"][0]["scale"] == 1.0
        assert keeper.patch(path, {"adapters": []}).json()["adapters"] == []

    def test_the_last_word_about_loading(self, keeper, row) -> None:
        path = f"/models/{row.pk}"
        assert keeper.patch(path, {"wants_loaded": False}).json()["wants_loaded"] is False
        assert keeper.patch(path, {"wants_loaded": None}).json()["wants_loaded"] is None

    def test_two_people_at_once(self, keeper, row) -> None:
        path = f"/models/{row.pk}"
        seen = keeper.get(path)["ETag"]
        assert keeper.patch(path, {"idle_unload_s": 5}, **{"If-Match": seen}).status_code == 200
        refused = keeper.patch(path, {"idle_unload_s": 6}, **{"If-Match": seen})
        assert error_of(refused)[:2] == (412, "precondition_failed")
        assert error_of(keeper.call("DELETE", path, **{"If-Match": seen}))[:2] == (412, "precondition_failed")

    def test_what_processes_say_does_not_count_as_a_change(self, keeper, row) -> None:
        path = f"/models/{row.pk}"
        seen = keeper.get(path)["ETag"]
        status = ModelStatus(row.pk, ModelState.LOADING)
        model_reports_write(process=serving_process(), statuses=(status,))
        assert keeper.get(path)["ETag"] == seen

    def test_removed_with_all_that_belongs_to_it(self, keeper, row) -> None:
        assert keeper.delete(f"/models/{row.pk}").status_code == 204
        assert not ModelName.objects.exists()
        for response in (
            keeper.delete(f"/models/{row.pk}"),
            keeper.get(f"/models/{row.pk}"),
            keeper.patch(f"/models/{row.pk}", {}),
            keeper.post(f"/models/{row.pk}/load"),
            keeper.get(f"/models/{10**18 - 1}/status"),
        ):
            assert error_of(response)[:2] == (404, "model_not_found")

    def test_the_history_names_who_did_it(self, keeper, row) -> None:
        keeper.post(f"/models/{row.pk}/unload")
        told = AdministrativeChange.objects.filter(subject_kind="model").order_by("-pk")[0]
        assert (told.actor_key_id, told.door, told.subject_label) == (keeper.row.pk, "api", "tiny")
        assert told.changes == {"wants_loaded": [None, False]}


class TestLoading:
    def test_load_and_unload_are_words_that_may_be_repeated(self, keeper, row) -> None:
        for action, word, revision in (("load", True, 2), ("load", True, 2), ("unload", False, 3)):
            answer = keeper.post(f"/models/{row.pk}/{action}")
            assert answer.status_code == 202
            assert answer.json() == {
                "id": row.pk,
                "model_id": "tiny",
                "wants_loaded": word,
                "revision": revision,
                "status": [],
            }

    def test_what_is_not_enabled_is_not_loaded(self, keeper, row) -> None:
        keeper.patch(f"/models/{row.pk}", {"is_enabled": False})
        assert error_of(keeper.post(f"/models/{row.pk}/load")) == (409, "conflict", "is_enabled")

    def test_status_by_process(self, keeper, row) -> None:
        first, second = serving_process(), serving_process()
        model_reports_write(
            process=first, statuses=(ModelStatus(row.pk, ModelState.READY, 1, "", 3, 5_000_000_000),)
        )
        model_reports_write(
            process=second, statuses=(ModelStatus(row.pk, ModelState.FAILED, 1, "not enough memory"),)
        )
        told = {one["process_id"]: one for one in keeper.get(f"/models/{row.pk}/status").json()["status"]}
        ready, failed = told[str(first.id)], told[str(second.id)]
        assert (ready["state"], ready["num_running"], ready["memory_bytes"]) == ("ready", 3, 5_000_000_000)
        assert (failed["state"], failed["cause"], failed["process"]) == (
            "failed",
            "not enough memory",
            second.name,
        )


class TestWho:
    def test_staff_has_what_the_admin_lets_it_do(self, client) -> None:
        user = User.objects.create_user("member", is_staff=True)
        client.force_login(user)
        assert client.get("/api/models").status_code == 403
        wanted = ("add_modelrow", "change_modelrow", "delete_modelrow")
        user.user_permissions.set(Permission.objects.filter(codename__in=wanted))
        assert client.get("/api/models").status_code == 200


def test_a_list_costs_the_same_however_long_it_is(keeper, gguf) -> None:
    def number() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert keeper.get("/models").status_code == 200
        return len(seen)

    adapters = [{"name": "x", "source": gguf}]
    keeper.post("/models", {"model_id": "m", "source": gguf, "adapters": adapters})
    keeper.get("/models")
    first = number()
    for index in range(5):
        keeper.post("/models", {"model_id": f"m{index}", "source": gguf, "adapters": adapters})
    assert number() == first


@pytest.mark.django_db(transaction=True)
def test_many_at_once_add_one(keeper, gguf, in_threads) -> None:
    body = {"model_id": "m", "source": gguf}
    made = in_threads(partial(keeper.post, "/models", body), 6)
    assert sorted(one.status_code for one in made) == [201, *[409] * 5]
