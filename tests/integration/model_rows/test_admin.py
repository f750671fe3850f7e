"""Models in the admin: the same services, what is wrong at its field, and lists that stay cheap."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts import services as accounts
from accounts.contracts import Limits
from accounts.models import AdministrativeChange
from inference.domain.adapters import AdapterSettings
from inference.domain.model_settings import ModelState, ModelStatus
from inference.model_rows.columns import settings_of
from inference.model_rows.reports import model_reports_write
from inference.model_rows.services import model_row_get
from inference.models import ModelRow
from skippy_site.model_rows import serving_process

pytestmark = pytest.mark.django_db

LIST, ADD = "/admin/inference/modelrow/", "/admin/inference/modelrow/add/"


def form(source: str, /, *adapters: dict[str, Any], num_there: int = 0, **changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model_id": "tiny",
        "aliases": "",
        "source": source,
        "projector_source": "",
        "is_enabled": "on",
        "load_policy": "always",
        "idle_unload_s": "0",
        "engine": "{}",
        "admission": "{}",
        "chat_defaults": "{}",
        "completion_defaults": "{}",
        "speculation_mode": "off",
        "max_draft_tokens": "8",
        "allows_speculation_requests": "on",
        "draft_source": "",
        "is_open": "on",
        "adapters-TOTAL_FORMS": str(len(adapters)),
        "adapters-INITIAL_FORMS": str(num_there),
        **changes,
    }
    for index, adapter in enumerate(adapters):
        body |= {f"adapters-{index}-{name}": value for name, value in adapter.items()}
    return body


def test_added_with_adapters_and_changed_as_a_whole(admin_client, gguf) -> None:
    team = accounts.team_create(name="friends")
    body = form(
        gguf,
        {"name": "x", "source": gguf, "scale": "0.5"},
        aliases="a,b",
        is_default="on",
        engine='{"lanes": 2}',
        chat_defaults='{"temperature": 0.5}',
        teams=[str(team.pk)],
    )
    assert admin_client.post(ADD, body).status_code == 302
    row = model_row_get(row_id=ModelRow.objects.get().pk)
    settings = settings_of(row)
    assert (settings.aliases, settings.engine, settings.is_default) == (("a", "b"), {"lanes": 2}, True)
    assert settings.adapters == (AdapterSettings(name="x", source=gguf, scale=0.5),)
    assert settings.access.team_ids == {team.pk}
    page = admin_client.get(f"{LIST}{row.pk}/change/")
    assert page.status_code == 200
    adapter = row.adapters.get()
    there = {"id": adapter.pk, "row": row.pk, "name": "x", "source": gguf, "scale": "2", "is_default": "on"}
    new = {"id": "", "row": row.pk, "name": "y", "source": gguf, "scale": "1"}
    body = form(gguf, there, new, num_there=1, model_id="other", aliases="a")
    assert admin_client.post(f"{LIST}{row.pk}/change/", body).status_code == 302
    changed = settings_of(model_row_get(row_id=row.pk))
    assert (changed.id, changed.aliases, changed.revision) == ("other", ("a",), 2)
    assert [(one.name, one.scale, one.is_default) for one in changed.adapters] == [
        ("x", 2.0, True),
        ("y", 1.0, False),
    ]
    gone = {**there, "DELETE": "on"}
    assert admin_client.post(f"{LIST}{row.pk}/change/", form(gguf, gone, num_there=1)).status_code == 302
    assert not model_row_get(row_id=row.pk).adapters.filter(name="x").exists()
    assert {one.door for one in AdministrativeChange.objects.filter(subject_kind="model")} == {"admin"}


def test_a_new_default_takes_the_place_of_the_old_one(admin_client, make, gguf) -> None:
    make("old", is_default=True)
    assert admin_client.post(ADD, form(gguf, is_default="on")).status_code == 302
    assert [row.model_id for row in ModelRow.objects.filter(is_default=True)] == ["tiny"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model_id": "x@main"}, "model_id"),
        ({"model_id": ""}, "model_id"),
        ({"model_id": "taken"}, "model_id"),
        ({"aliases": "taken"}, "aliases"),
        ({"source": "/nothing"}, "source"),
        ({"idle_unload_s": "-1"}, "idle_unload_s"),
        ({"idle_unload_s": "nan"}, "idle_unload_s"),
        ({"engine": "[]"}, "engine"),
        ({"engine": "{"}, "engine"),
        ({"engine": '{"lanes": 0}'}, "engine"),
        ({"admission": '{"queue": -1}'}, "admission"),
        ({"chat_defaults": '{"temperature": 9}'}, "chat_defaults"),
        ({"chat_defaults": '{"x": "\\u0000"}'}, "chat_defaults"),
        ({"completion_defaults": '{"system_prompt": "x"}'}, "completion_defaults"),
        ({"speculation_mode": "draft_model"}, "draft_source"),
        ({"max_draft_tokens": "65"}, "max_draft_tokens"),
        ({"teams": ["99"]}, "teams"),
    ],
    ids=str,
)
def test_what_is_wrong_is_shown_at_its_field(admin_client, make, gguf, changes, field) -> None:
    make("taken")
    page = admin_client.post(ADD, form(gguf, **changes))
    assert page.status_code == 200
    assert field in page.context["adminform"].form.errors
    assert ModelRow.objects.count() == 1


@pytest.mark.parametrize(
    "adapters",
    [
        ({"name": "x", "source": "hf:o/r/a.gguf", "scale": "nan"},),
        ({"name": "x", "source": "hf:o/r/a.gguf", "scale": "5000"},),
        ({"name": "x", "source": "hf:o/r/a.gguf", "scale": "1"}, {"name": "x", "source": "y", "scale": "1"}),
    ],
    ids=str,
)
def test_adapters_that_cannot_be(admin_client, gguf, adapters) -> None:
    page = admin_client.post(ADD, form(gguf, *adapters))
    assert page.status_code == 200
    assert page.context["errors"]
    assert not ModelRow.objects.exists()


def test_an_adapter_whose_file_is_not_there_is_told_and_nothing_is_written(admin_client, gguf) -> None:
    page = admin_client.post(ADD, form(gguf, {"name": "x", "source": "/nothing", "scale": "1"}), follow=True)
    assert "adapters.0.source" in page.content.decode()
    assert not ModelRow.objects.exists()


def test_loaded_and_unloaded_by_action(admin_client, make) -> None:
    on, off = make("on"), make("off", is_enabled=False)
    for action, word in (("load_selected", True), ("unload_selected", False)):
        body = {"action": action, "_selected_action": [on.pk, off.pk]}
        page = admin_client.post(LIST, body, follow=True)
        assert page.status_code == 200
        assert ModelRow.objects.get(pk=on.pk).wants_loaded is word
        assert "not enabled" in page.content.decode() or not word
    assert ModelRow.objects.get(pk=off.pk).wants_loaded is False


def test_removed_one_and_many(admin_client, make) -> None:
    rows = [make(f"m{index}") for index in range(3)]
    accounts.team_create(name="t", limits=Limits(allowed_models=("m0",)))
    page = admin_client.post(f"{LIST}{rows[0].pk}/delete/", {"post": "yes"}, follow=True)
    assert "held to models that there are not: m0" in page.content.decode()
    body = {"action": "delete_selected", "_selected_action": [row.pk for row in rows[1:]], "post": "yes"}
    admin_client.post(LIST, body)
    assert not ModelRow.objects.exists()
    assert AdministrativeChange.objects.filter(subject_kind="model", action="deleted").count() == 3


def test_status_is_shown_and_a_list_costs_the_same_however_long_it_is(admin_client, make) -> None:
    def number() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert admin_client.get(LIST).status_code == 200
        return len(seen)

    row = make("m")
    failed = ModelStatus(row.pk, ModelState.FAILED, 1, "no memory <b>")
    model_reports_write(process=serving_process(), statuses=(failed,))
    number()
    first = number()
    for index in range(5):
        make(f"m{index}")
    assert number() == first
    assert "1 failed" in admin_client.get(LIST).content.decode()
    page = admin_client.get(f"{LIST}{row.pk}/change/").content.decode()
    assert "no memory &lt;b&gt;" in page
