"""/api/keys: made once, shown once, never above who makes them; own keys within their bounds."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.utils import timezone

from accounts import keys, services
from accounts.contracts import KeyPriority, Limits, Policy
from accounts.models import AdministrativeChange, ApiKey
from accounts.scopes import DEFAULT_SCOPES, Scope
from accounts.self_service import SelfServiceBounds, self_service_set
from tests.integration.management.conftest import error_of

pytestmark = pytest.mark.django_db

OWN = DEFAULT_SCOPES | {Scope.KEYS_OWN}


class TestMaking:
    def test_a_key_is_shown_once_and_opens_what_it_was_given(self, manager, bob) -> None:
        body = {
            "user_id": bob.pk,
            "name": "Büro",
            "scopes": ["usage", "inference", "usage"],
            "priority": "batch",
            "has_session_trust": True,
            "expires_at": "2040-01-01T00:00:00Z",
            "limits": {
                "max_tokens_per_minute": 200,
                "allowed_networks": ["10.0.0.0/8"],
                "allowed_models": ["a"],
            },
        }
        made = manager.post("/keys", body)
        assert made.status_code == 201
        assert "no-store" in made["Cache-Control"]
        shown = made.json()
        assert keys.is_well_formed(shown["key"])
        row = ApiKey.objects.get(pk=shown["id"])
        assert row.digest == keys.digest_of(shown["key"])
        principal = row.facts().principal
        assert (principal.username, principal.priority) == ("bob", KeyPriority.BATCH)
        assert principal.limits.of_key == Limits(
            max_tokens_per_minute=200,
            allowed_models=("a",),
            allowed_networks=(ip_network("10.0.0.0/8"),),
        )
        assert shown["scopes"] == ["inference", "usage"]
        again = manager.get(f"/keys/{row.pk}")
        assert "key" not in again.json()
        assert again.json() == {name: value for name, value in shown.items() if name != "key"}
        for text in (again.content.decode(), manager.get("/keys").content.decode()):
            assert shown["key"][16:-4] not in text
            assert row.digest not in text

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({}, "name"),
            ({"name": ""}, "name"),
            ({"name": "x\u202ey"}, "name"),
            ({"name": "x\x00"}, "name"),
            ({"name": "x" * 101}, "name"),
            ({"name": 5, "scopes": "inference"}, "scopes"),
            ({"name": "x", "scopes": ["root"]}, "scopes.0"),
            ({"name": "x", "scopes": [["keys"]]}, "scopes.0"),
            ({"name": "x", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
            ({"name": "x", "expires_at": "soon"}, "expires_at"),
            ({"name": "x", "priority": "urgent"}, "priority"),
            ({"name": "x", "user_id": 2**62}, "user_id"),
            ({"name": "x", "user_id": 2**70}, "user_id"),
            ({"name": "x", "user_id": 0}, "user_id"),
            ({"name": "x", "limits": []}, "limits"),
            ({"name": "x", "limits": {"max_tokens_per_minute": -1}}, "limits.max_tokens_per_minute"),
            ({"name": "x", "limits": {"max_tokens_per_day": 2**63}}, "limits.max_tokens_per_day"),
            ({"name": "x", "limits": {"allowed_networks": ["10.0.0.1/8"]}}, "limits.allowed_networks.0"),
            ({"name": "x", "limits": {"allowed_models": ["a"] * 101}}, "limits.allowed_models"),
            ({"name": "x", "limits": {"max_token": 1}}, "limits.max_token"),
            ({"name": "x", "digest": "0" * 64}, "digest"),
            ({"name": "x", "last_used_at": None}, "last_used_at"),
            ({"name": "x", "key": "sk-skippy-mine"}, "key"),
            ({"name": "x", "\ud800\u0007": 1}, "\\ud800?"),
        ],
        ids=repr,
    )
    def test_what_is_wrong_is_named(self, manager, body, param) -> None:
        assert error_of(manager.post("/keys", body)) == (400, "invalid_value", param)
        assert ApiKey.objects.count() == 1

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b"5",
            b"{",
            b'{"name": NaN}',
            b'{"name": "x", "name": "y"}',
            b"\xff",
            b"[" * 100_000,
            b'{"user_id": ' + b"9" * 5000 + b"}",
        ],
        ids=lambda body: repr(body[:20]),
    )
    def test_bodies_that_are_no_object_of_json(self, manager, body) -> None:
        assert error_of(manager.call("POST", "/keys", body))[0] == 400

    def test_a_body_over_the_limit_and_one_that_is_not_json(self, manager) -> None:
        assert error_of(manager.call("POST", "/keys", b" " * 300_000))[:2] == (413, "payload_too_large")
        assert error_of(manager.call("POST", "/keys", b" " * 3_000_000))[:2] == (413, "payload_too_large")
        response = manager.client.post(
            "/api/keys", {"name": "x"}, headers={"authorization": f"Bearer {manager.key}"}
        )
        assert error_of(response)[:2] == (415, "unsupported_media_type")

    def test_an_inactive_user_gets_none(self, manager, bob) -> None:
        bob.is_active = False
        bob.save()
        assert error_of(manager.post("/keys", {"user_id": bob.pk, "name": "x"}))[0] == 400


class TestNobodyGivesWhatHeHasNot:
    def test_making_changing_and_replacing(self, manager, program) -> None:
        stronger = program("bob", frozenset({Scope.KEYS, Scope.METRICS}))
        assert error_of(manager.post("/keys", {"name": "x", "scopes": ["metrics"]}))[0] == 403
        assert error_of(manager.patch(f"/keys/{stronger.row.pk}", {"name": "x"}))[0] == 403
        assert error_of(manager.post(f"/keys/{stronger.row.pk}/rotate"))[0] == 403
        weaker = program("bob")
        assert error_of(manager.patch(f"/keys/{weaker.row.pk}", {"scopes": ["metrics"]}))[0] == 403
        assert manager.delete(f"/keys/{stronger.row.pk}").status_code == 204


class TestChangingAndEnding:
    def test_what_is_left_out_stays(self, manager, program) -> None:
        row = program(
            limits=Limits(max_tokens_per_day=9, max_parallel_requests=2),
            policy=Policy(has_session_trust=True, priority=KeyPriority.BATCH),
        ).row
        changed = manager.patch(f"/keys/{row.pk}", {"limits": {"max_tokens_per_day": None}})
        assert changed.status_code == 200
        shown = changed.json()
        assert (shown["limits"]["max_tokens_per_day"], shown["limits"]["max_parallel_requests"]) == (None, 2)
        assert (shown["name"], shown["priority"], shown["has_session_trust"]) == ("p", "batch", True)
        assert manager.patch(f"/keys/{row.pk}", {"priority": None}).json()["priority"] is None
        change = AdministrativeChange.objects.first()
        assert (change.door, change.actor_key_id) == ("api", manager.row.pk)
        assert change.changes == {"priority": ["batch", ""]}

    def test_two_who_edit_the_same_key(self, manager, program) -> None:
        row = program().row
        etag = manager.get(f"/keys/{row.pk}")["ETag"]
        assert manager.patch(f"/keys/{row.pk}", {"name": "a"}, **{"if-match": etag}).status_code == 200
        late = manager.patch(f"/keys/{row.pk}", {"name": "b"}, **{"if-match": etag})
        assert error_of(late)[:2] == (412, "precondition_failed")
        now = manager.get(f"/keys/{row.pk}")["ETag"]
        assert (
            manager.patch(f"/keys/{row.pk}", {"name": "b"}, **{"if-match": f'"x", {now}'}).status_code == 200
        )

    def test_revoking_twice_is_fine_and_of_nothing_is_404(self, manager, program) -> None:
        row = program().row
        for _ in range(2):
            assert manager.delete(f"/keys/{row.pk}").status_code == 204
        assert AdministrativeChange.objects.filter(subject_id=row.pk, subject_kind="api_key").count() == 2
        for key_id in ("999999", "9" * 18):
            assert error_of(manager.delete(f"/keys/{key_id}"))[:2] == (404, "not_found")
        assert error_of(manager.delete(f"/keys/{'9' * 30}"))[:2] == (404, "not_found")

    def test_a_replaced_key_is_shown_once_and_replaced_once(self, manager, program) -> None:
        row = program().row
        new = manager.post(f"/keys/{row.pk}/rotate", {"grace_s": 3600})
        assert new.status_code == 201
        assert new.json()["rotated_from_id"] == row.pk
        assert keys.is_well_formed(new.json()["key"])
        assert error_of(manager.post(f"/keys/{row.pk}/rotate"))[0] == 400
        assert error_of(manager.post(f"/keys/{row.pk}/rotate", {"grace_s": 10**9}))[2] == "grace_s"
        assert error_of(manager.post(f"/keys/{row.pk}/rotate", {"grace_s": 10**30}))[2] == "grace_s"


class TestLists:
    def test_pages_are_neither_shifted_nor_doubled(self, manager, bob) -> None:
        made = [services.api_key_create(user=bob, name=f"k{number}")[0].pk for number in range(7)]
        seen: list[int] = []
        after = ""
        while True:
            page = manager.get(f"/keys?user_id={bob.pk}&limit=3{after}").json()
            seen += [row["id"] for row in page["data"]]
            services.api_key_create(user=bob, name="meanwhile")
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert seen == made[::-1]
        assert manager.get(f"/keys?user_id={bob.pk + 99}").json() == {
            "object": "list",
            "data": [],
            "last_id": None,
            "has_more": False,
        }

    @pytest.mark.parametrize(
        ("query", "param"),
        [
            ("limit=0", "limit"),
            ("limit=201", "limit"),
            ("limit=x", "limit"),
            ("after=-1", "after"),
            ("after=99999999999999999999", "after"),
            ("user=1", "user"),
            ("is_revoked=maybe", "is_revoked"),
        ],
    )
    def test_filters_are_checked(self, manager, query, param) -> None:
        assert error_of(manager.get(f"/keys?{query}")) == (400, "invalid_value", param)

    @pytest.mark.parametrize("num_rows", [3, 100])
    def test_queries_do_not_grow_with_rows(
        self, manager, program, num_rows, django_assert_max_num_queries
    ) -> None:
        team = services.team_create(name="t")
        for number in range(num_rows):
            user = services.user_ensure(username=f"u{number}")
            services.user_team_set(user=user, team=team)
            services.api_key_create(user=user, name="x")
        manager.get("/keys")
        for path in ("/keys", "/users", "/teams", "/changes"):
            with django_assert_max_num_queries(4):
                assert manager.get(f"{path}?limit=200").status_code == 200

    def test_revoked_ones_can_be_left_out(self, manager, program) -> None:
        row = program().row
        services.api_key_revoke(key=row)
        assert row.pk not in [one["id"] for one in manager.get("/keys?is_revoked=false").json()["data"]]
        assert [one["id"] for one in manager.get("/keys?is_revoked=true").json()["data"]] == [row.pk]


class TestOwnKeys:
    def allow(self, caller, **bounds) -> None:
        self_service_set(user=caller.row.user, bounds=SelfServiceBounds(**bounds))

    def test_nothing_is_allowed_until_an_administrator_says_so(self, program) -> None:
        assert error_of(program(scopes=OWN).post("/keys", {"name": "x"}))[:2] == (403, "permission_denied")

    def test_keys_of_others_look_like_none(self, program, bob) -> None:
        caller = program(scopes=OWN)
        other, _ = services.api_key_create(user=bob, name="bobs")
        for method in ("GET", "PATCH", "DELETE"):
            missing = caller.call(method, "/keys/999999", {} if method == "PATCH" else None)
            theirs = caller.call(method, f"/keys/{other.pk}", {} if method == "PATCH" else None)
            assert error_of(theirs)[:2] == (404, "not_found")
            assert theirs.content == missing.content
        assert [row["username"] for row in caller.get("/keys").json()["data"]] == ["ann"]
        assert caller.get(f"/keys?user_id={bob.pk}").json()["data"] == []
        self.allow(caller, max_keys=5)
        assert error_of(caller.post("/keys", {"name": "x", "user_id": bob.pk}))[0] == 403

    def test_it_is_bounded_by_the_key_that_makes_it(self, program) -> None:
        end = timezone.now() + timedelta(days=2)
        caller = program(
            scopes=frozenset({Scope.KEYS_OWN, Scope.INFERENCE, Scope.METRICS}),
            limits=Limits(
                max_tokens_per_minute=100,
                allowed_models=("a", "b"),
                allowed_networks=(ip_network("127.0.0.0/8"),),
            ),
            policy=Policy(has_session_trust=True, priority=KeyPriority.BATCH),
            expires_at=end,
        )
        self.allow(caller, max_keys=9)
        made = caller.post("/keys", {"name": "script"}).json()
        assert made["scopes"] == ["inference"]
        assert made["limits"]["max_tokens_per_minute"] == 100
        assert made["limits"]["allowed_networks"] == ["127.0.0.0/8"]
        assert made["priority"] == "batch"
        assert made["expires_at"] == end.isoformat().replace("+00:00", "Z")
        narrower = {"max_tokens_per_minute": 5, "allowed_models": ["b"], "allowed_networks": ["127.0.0.1/32"]}
        assert caller.post("/keys", {"name": "x", "limits": narrower}).status_code == 201
        for body, status, param in (
            ({"scopes": ["metrics"]}, 400, "scopes"),
            ({"scopes": ["keys_own"]}, 400, "scopes"),
            ({"scopes": ["usage"]}, 400, "scopes"),
            ({"limits": {"max_tokens_per_minute": 101}}, 400, "limits.max_tokens_per_minute"),
            ({"limits": {"max_tokens_per_minute": None}}, 400, "limits.max_tokens_per_minute"),
            ({"limits": {"allowed_models": ["a", "c"]}}, 400, "limits.allowed_models"),
            ({"limits": {"allowed_models": []}}, 400, "limits.allowed_models"),
            ({"limits": {"allowed_networks": ["126.0.0.0/7"]}}, 400, "limits.allowed_networks"),
            ({"limits": {"allowed_networks": ["::1/128"]}}, 400, "limits.allowed_networks"),
            ({"expires_at": "2040-01-01T00:00:00Z"}, 400, "expires_at"),
            ({"priority": "interactive"}, 403, None),
            ({"has_session_trust": False}, 403, None),
        ):
            refused = error_of(caller.post("/keys", {"name": "x", **body}))
            assert (refused[0], refused[2]) == (status, param), body

    def test_number_and_days_are_the_administrators(self, program) -> None:
        caller = program(scopes=OWN)
        self.allow(caller, max_keys=3, max_days=10)
        first = caller.post("/keys", {"name": "1"}).json()
        assert first["expires_at"] < (timezone.now() + timedelta(days=10, minutes=1)).isoformat()
        assert caller.post("/keys", {"name": "2"}).status_code == 201
        assert error_of(caller.post("/keys", {"name": "3"}))[0] == 403
        assert caller.delete(f"/keys/{first['id']}").status_code == 204
        assert caller.post("/keys", {"name": "3"}).status_code == 201

    def test_a_name_may_be_changed_and_nothing_else(self, program) -> None:
        caller = program(scopes=OWN)
        own, _ = services.api_key_create(user=caller.row.user, name="x")
        assert caller.patch(f"/keys/{own.pk}", {"name": "y"}).json()["name"] == "y"
        for body in ({"scopes": []}, {"limits": {}}, {"expires_at": None}, {"priority": None}):
            assert error_of(caller.patch(f"/keys/{own.pk}", body))[0] == 403
        assert error_of(caller.post(f"/keys/{own.pk}/rotate"))[0] == 403

    def test_signed_in_a_user_makes_keys_too(self, client, bob) -> None:
        client.force_login(bob)
        self_service_set(user=bob, bounds=SelfServiceBounds(max_keys=1))
        made = client.post("/api/keys", {"name": "x"}, content_type="application/json")
        assert made.status_code == 201
        change = AdministrativeChange.objects.filter(subject_kind="api_key").get()
        assert (change.door, change.actor_user_id, change.actor_key_id) == ("api", bob.pk, None)


@pytest.mark.django_db(transaction=True)
def test_together_they_do_not_make_more_keys_than_allowed(program, in_threads) -> None:
    caller = program(scopes=OWN)
    self_service_set(user=caller.row.user, bounds=SelfServiceBounds(max_keys=3))
    answers = in_threads(lambda: caller.post("/keys", {"name": "x"}).status_code, 8)
    assert sorted(answers) == [201, 201, *[403] * 6]
    assert ApiKey.objects.count() == 3
