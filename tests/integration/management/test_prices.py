"""/api/prices: from a day on, corrected, removed, each with its line in the history."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from accounts.scopes import Scope
from inference.models import ModelPrice
from tests.integration.management.conftest import error_of

pytestmark = pytest.mark.django_db
PRICE = {"model": "llama-8b", "starts_on": "2026-11-01", "input_price": "0.5", "output_price": "1.25"}


@pytest.fixture
def keeper(program):
    return program("keeper", frozenset({Scope.MODELS}))


def test_made_corrected_removed_and_told(keeper, manager) -> None:
    made = keeper.post("/prices", PRICE)
    assert made.status_code == 201
    shown = made.json()
    path = f"/prices/{shown['id']}"
    assert (shown["input_price"], shown["cached_price"]) == ("0.500000", None)
    assert keeper.get(path).json() == keeper.get("/prices?model=llama-8b").json()["data"][0] == shown
    assert keeper.get("/prices?model=other").json()["data"] == []
    assert error_of(keeper.post("/prices", PRICE)) == (409, "conflict", "starts_on")
    later = keeper.post("/prices", {**PRICE, "starts_on": "2026-12-01"}).json()
    assert error_of(keeper.patch(path, {"starts_on": "2026-12-01"})) == (409, "conflict", "starts_on")
    tag = keeper.get(path)["ETag"]
    changed = keeper.patch(path, {"cached_price": "0.1"}, **{"if-match": tag})
    assert changed.json() == {**shown, "cached_price": "0.100000"}
    assert error_of(keeper.patch(path, {"cached_price": None}, **{"if-match": tag}))[0] == 412
    assert keeper.delete(path).status_code == 204
    assert error_of(keeper.delete(path))[0] == 404
    assert [row.pk for row in ModelPrice.objects.all()] == [later["id"]]
    told = keeper.get("/prices/changes").json()["data"]
    assert [one["action"] for one in told] == ["deleted", "changed", "created", "created"]
    assert told[1]["changes"] == {"cached_price": [None, "0.100000"]}
    assert error_of(manager.get("/prices"))[0] == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_price": "-1"},
        {"output_price": "NaN"},
        {"output_price": "Infinity"},
        {"cached_price": "1e30"},
        {"input_price": "0.0000001"},
        {"input_price": None},
        {"starts_on": "2026-13-01"},
        {"starts_on": "x"},
        {"model": ""},
        {"model": "a\u202eb"},
        {"model": "x" * 201},
        {"currency": "EUR"},
    ],
)
def test_what_is_no_price_is_refused_by_its_field(keeper, wrong) -> None:
    status, _, param = error_of(keeper.post("/prices", {**PRICE, **wrong}))
    assert (status, param) == (400, next(iter(wrong)))
    assert not ModelPrice.objects.exists()


def test_by_session_the_permissions_for_prices_count(db) -> None:
    user = User.objects.create_user("staff", is_staff=True)
    names = ("view_modelrow", "add_modelrow", "change_modelrow", "delete_modelrow", "view_modelprice")
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    assert client.get("/api/prices").status_code == 200
    assert client.post("/api/prices", PRICE, content_type="application/json").status_code == 403
