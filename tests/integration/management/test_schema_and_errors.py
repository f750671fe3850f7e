"""/api/schema/ is a valid document that anybody may read, and says of each operation what is true; and
whatever goes wrong under /api/ is the one error object."""

from __future__ import annotations

import logging

import pytest
from django.db import OperationalError
from django.test import RequestFactory
from drf_spectacular.validation import validate_schema

from accounts import keys
from accounts.scopes import Scope
from skippy_site import api_errors
from skippy_site.api_schema import schema_bytes
from skippy_site.logging import LineFormatter
from tests.integration.management.conftest import error_of
from tests.integration.management.test_access import OPERATIONS

pytestmark = pytest.mark.django_db


@pytest.fixture
def document(client) -> dict:
    response = client.get("/api/schema/")
    assert response.status_code == 200
    return response.json()


class TestSchema:
    def test_it_is_valid_openapi_and_needs_no_key(self, document) -> None:
        validate_schema(document)
        assert document["openapi"].startswith("3.")

    def test_every_operation_is_there_with_its_scopes_and_its_error(self, document) -> None:
        found = {}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                names = {
                    "{user_id}": "{user}",
                    "{team_id}": "{team}",
                    "{key_id}": "{key}",
                    "{row_id}": "{model}",
                    "{record_id}": "{record}",
                    "{policy_id}": "{policy}",
                    "{webhook_id}": "{webhook}",
                    "{replay_id}": "{replay}",
                    "{price_id}": "{price}",
                }
                shown = path.removeprefix("/api")
                for long, short in names.items():
                    shown = shown.replace(long, short)
                found[(method.upper(), shown.rstrip("/"))] = operation
        for wanted, scopes in OPERATIONS.items():
            operation = found[wanted]
            assert operation["operationId"]
            assert operation["summary"]
            for scope in scopes:
                assert f"`{scope.value}`" in operation["description"]
            assert "$ref" in str(operation["responses"]["default"])
        rest = {("GET", "/users/{user}/export"), ("POST", "/users/{user}/erase")}
        rest |= {("POST", f"/users/{{user}}/{name}") for name in ("invitation", "password-link")}
        assert set(found) == set(OPERATIONS) | rest

    def test_bodies_name_their_fields_and_no_answer_but_the_first_has_a_key(self, document) -> None:
        schemas = document["components"]["schemas"]
        assert "name" in schemas["ApiKeyRequestRequest"]["required"]
        assert "max_tokens_per_day" in str(schemas["Limits"])
        with_key = [name for name, schema in schemas.items() if "key" in schema.get("properties", {})]
        assert with_key == ["NewApiKey"]

    def test_it_is_made_once(self, client) -> None:
        client.get("/api/schema")
        hits = schema_bytes.cache_info().hits
        client.get("/api/schema")
        assert schema_bytes.cache_info().hits == hits + 1


class TestErrors:
    @pytest.mark.parametrize("accept", ["text/html", "application/xml", "nonsense", "*/*"])
    def test_the_form_is_json_whatever_accept_says(self, client, accept) -> None:
        for path in ("/api/keys", "/api/nothing", "/api/", "/api/keys/x/y"):
            response = client.get(path, headers={"accept": accept})
            assert response["Content-Type"] == "application/json"
            error_of(response)

    def test_a_host_that_is_not_ours(self, client) -> None:
        response = client.get("/api/me", headers={"host": "evil.example"})
        assert error_of(response)[:2] == (400, "invalid_value")

    def test_the_admin_keeps_its_own_pages(self, client, admin_client) -> None:
        assert "text/html" in admin_client.get("/admin/nothing/")["Content-Type"]
        assert "text/html" in client.get("/nothing")["Content-Type"]

    def test_a_database_that_is_away_is_503(self) -> None:
        response = api_errors.exception_handler(OperationalError("password=hunter2"), {})
        assert response.status_code == 503
        assert response.data["error"]["code"] == "service_unavailable"
        assert "hunter2" not in str(response.data)
        assert int(response.headers["Retry-After"]) > 0

    def test_a_fault_of_ours_says_nothing_and_is_logged_under_the_requests_id(self, caplog) -> None:
        request = RequestFactory().get("/api/me")
        request.request_id = "the-id"
        with caplog.at_level(logging.ERROR):
            response = api_errors.exception_handler(ZeroDivisionError("secret"), {"request": request})
        assert (response.status_code, "secret" in str(response.data)) == (500, False)
        assert "the-id" in caplog.text

    def test_handlers_for_what_reaches_no_view(self) -> None:
        request = RequestFactory().get("/api/me")
        assert api_errors.server_error(request).status_code == 500
        assert b"internal_server_error" in api_errors.server_error(request).content
        other = RequestFactory().get("/admin/")
        assert b"internal_server_error" not in api_errors.server_error(other).content


def test_a_key_is_in_no_log_no_error_and_no_history(program, caplog) -> None:
    caller = program(scopes=frozenset({Scope.KEYS}))
    wrong = keys.mint().plaintext
    answers = [
        caller.get(f"/keys?key={caller.key}"),
        caller.get(f"/keys/{caller.key}"),
        caller.post("/keys", {"name": "x", caller.key: 1}),
        caller.post("/keys", {"name": "x", "priority": wrong}),
        caller.patch(f"/keys/{caller.row.pk}", {"name": "y"}),
        caller.client.get("/api/me", headers={"authorization": f"Bearer {wrong}"}),
        caller.get("/changes"),
        caller.get("/keys"),
    ]
    logged = "\n".join(LineFormatter().format(record) for record in caplog.records)
    assert "/api/keys/sk-skippy-" in logged
    told = logged + "".join(answer.content.decode() for answer in answers)
    for key in (caller.key, wrong):
        assert key[16:-4] not in told
