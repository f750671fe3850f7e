"""The command that `serve` runs before the first request."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command

from inference.models import ModelRow

pytestmark = pytest.mark.django_db


def first_run() -> dict[str, Any]:
    said = StringIO()
    call_command("first_run", "--migrate", "--json", stdout=said)
    answer: dict[str, Any] = json.loads(said.getvalue())
    return answer


def test_the_first_administrator_is_told_once_and_can_sign_in() -> None:
    made = first_run()["administrator"]

    user = authenticate(username=made["username"], password=made["password"])
    assert user is not None
    assert user.is_superuser
    assert made["api_key"].startswith("sk-skippy-")
    assert first_run() == {"administrator": None, "models": []}


def test_without_json_it_speaks_to_people() -> None:
    first_run()
    said = StringIO()

    call_command("first_run", stdout=said)

    assert said.getvalue() == "There is an administrator already; nothing was made.\n"


def test_the_models_that_there_are_are_told() -> None:
    row = ModelRow.objects.create(model_id="tiny", source="tiny.gguf")
    ModelRow.objects.create(model_id="off", source="off.gguf", is_enabled=False)
    assert first_run()["models"] == [{"id": row.model_id, "source": row.source}]
