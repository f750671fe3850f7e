"""The management API on a live service: a user, his key, what it opens, and its end."""

from __future__ import annotations

import json
import time

import httpx

from tests.contract.api.conftest import LiveService


def manager_of(service: LiveService) -> httpx.Client:
    scopes = ("--scope", "keys", "--scope", "usage_all")
    made = service.manage("api_key_create", "--user", "operator", "--name", "manager", *scopes, "--json")
    headers = {"Authorization": f"Bearer {json.loads(made)['key']}"}
    return httpx.Client(base_url=f"{service.url}/api", headers=headers, timeout=30)


def test_the_document_needs_no_key_and_everything_else_does(live: LiveService) -> None:
    document = httpx.get(f"{live.url}/api/schema/", timeout=30)
    assert document.status_code == 200
    assert "/api/keys/" in document.json()["paths"]
    for path in ("/api/keys", "/api/nothing"):
        refused = httpx.get(f"{live.url}{path}", timeout=30)
        assert refused.json()["error"]["code"] in ("invalid_api_key", "not_found")
        assert refused.headers["x-request-id"]
        assert live.auth["Authorization"] not in refused.text


def test_a_users_key_from_its_making_to_its_end(live: LiveService) -> None:
    with manager_of(live) as manager:
        name = f"user-{time.time_ns()}"
        user = manager.post("/users", json={"username": name}).json()
        key = manager.post("/keys", json={"user_id": user["id"], "name": "laptop"}).json()
        metrics = manager.post("/keys", json={"user_id": user["id"], "name": "other", "scopes": []}).json()
        asked = {"model": live.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        for shown, status in ((key, 200), (metrics, 403)):
            answer = live.post("/chat/completions", asked, Authorization=f"Bearer {shown['key']}")
            assert answer.status_code == status, answer.text
        changes = manager.get("/changes", params={"subject_user_id": user["id"]}).json()["data"]
        assert [change["subject_kind"] for change in changes] == ["api_key", "api_key", "user"]
        assert {(change["actor_name"], change["door"]) for change in changes} == {("operator", "api")}
        assert all(change["request_id"] for change in changes)
        exported = manager.get(f"/users/{user['id']}/export")
        assert exported.json()["account"][0]["username"] == name
        erased = manager.post(f"/users/{user['id']}/erase", json={"confirm": name})
        assert erased.status_code == 200, erased.text
        answer = live.post("/chat/completions", asked, Authorization=f"Bearer {key['key']}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "api_key_revoked")
