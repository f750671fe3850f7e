"""/api/users/{id}/invitation and /password-link: by key and by session, shown once, ended."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import services
from accounts.models import AdministrativeChange, ApiKey, PasswordLink
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from accounts.scopes import Scope
from tests.integration.management.conftest import error_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def administrator() -> Client:
    role_groups_ensure()
    user = User.objects.create_user("boss", password="x")
    role_set(user=user, role=Role.ADMINISTRATOR)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


def test_an_invitation_is_shown_once_listed_and_ended(manager, bob) -> None:
    path = f"/users/{bob.pk}/invitation"
    assert error_of(manager.get(path))[0] == 404
    made = manager.post(path, {"valid_hours": 2, "role": "key owner"})
    assert (made.status_code, "no-store" in made["Cache-Control"]) == (201, True)
    shown = made.json()
    url = shown.pop("url")
    assert Client().get(url.removeprefix("http://testserver")).status_code == 200
    assert (shown.pop("is_mailed"), shown["state"], shown["username"]) == (False, "open", "bob")
    assert manager.get(path).json() == shown
    assert manager.get(f"/password-links?user_id={bob.pk}&purpose=invitation").json()["data"] == [shown]
    assert manager.get("/password-links?purpose=reset").json()["data"] == []
    for _ in range(2):
        assert manager.delete(path).status_code == 204
    assert manager.get(path).json()["state"] == "revoked"
    assert Client().get(url.removeprefix("http://testserver")).status_code == 404
    told = AdministrativeChange.objects.filter(subject_kind="password_link", subject_user_id=bob.pk)
    assert {(one.door, one.actor_key_id) for one in told} == {("api", manager.row.pk)}
    assert "sl-skippy" not in manager.get("/changes").content.decode()


def test_no_key_sets_a_password_nor_makes_staff_nor_takes_an_account_over(manager, program, bob) -> None:
    everything = program("root-of-keys", frozenset(Scope))
    User.objects.filter(username="root-of-keys").update(is_superuser=True, is_staff=True)
    key, _ = services.api_key_create(user=bob, name="his")
    for one in (manager, everything):
        assert error_of(one.post(f"/users/{bob.pk}/password-link"))[0] == 403
        assert error_of(one.post(f"/users/{bob.pk}/invitation", {"role": "auditor"}))[0] == 403
    ApiKey.objects.filter(pk=key.pk).update(last_used_at="2026-01-01T00:00Z")
    staff = User.objects.create_user("staff", is_staff=True)
    for user in (bob, staff):
        assert error_of(everything.post(f"/users/{user.pk}/invitation"))[0] == 403
    assert not PasswordLink.objects.exists()


def test_who_manages_roles_makes_both_by_session(administrator, manager, bob) -> None:
    def post(path: str, body: dict[str, object]) -> object:
        return administrator.post(f"/api{path}", body, content_type="application/json")

    assert post(f"/users/{bob.pk}/invitation", {"role": "operator"}).status_code == 201
    bob.refresh_from_db()
    assert bob.is_staff
    assert error_of(manager.delete(f"/users/{bob.pk}/invitation"))[0] == 403
    bob.set_password("a long enough one")
    bob.save()
    assert error_of(post(f"/users/{bob.pk}/invitation", {}))[0] == 400
    assert post(f"/users/{bob.pk}/password-link", {"sends_mail": True}).json()["purpose"] == "reset"
    root = User.objects.create_superuser("root", password="x")
    assert error_of(post(f"/users/{root.pk}/password-link", {}))[0] == 403
    assert error_of(post("/users/99999999/password-link", {}))[0] == 404


@pytest.mark.parametrize(
    "body", [{"valid_hours": 0}, {"valid_hours": 10**9}, {"url": "x"}, {"role": "root"}, [], "x"]
)
def test_what_is_no_body_is_refused(manager, bob, body) -> None:
    assert error_of(manager.post(f"/users/{bob.pk}/invitation", body))[0] == 400
    bob.is_active = False
    bob.save()
    assert error_of(manager.post(f"/users/{bob.pk}/invitation"))[0] == 400


def test_nor_does_one_change_by_whom_an_account_is_found(manager, bob, administrator, settings) -> None:
    """Whoever changes a user's address to his own signs in as that user by the provider."""
    path = f"/users/{bob.pk}"
    assert manager.patch(path, {"email": "bob@example.org"}).status_code == 200
    settings.PROVIDER_LINKS_BY = "email"
    assert manager.patch(path, {"email": "new@example.org"}).status_code == 200  # nobody has used it yet
    bob.set_password("a long password of bob")
    bob.save(update_fields=["password"])
    assert error_of(manager.patch(path, {"email": "thief@example.org"}))[0] == 403
    assert manager.patch(path, {"email": "new@example.org", "is_active": True}).status_code == 200
    operator = User.objects.create_user("operator")
    role_set(user=operator, role=Role.OPERATOR)
    client = Client()
    client.force_login(User.objects.get(pk=operator.pk))
    page = f"/admin/auth/user/{bob.pk}/change/"
    for one, may_change in ((client, False), (administrator, True)):
        shown = one.get(page)
        assert (shown.status_code, 'name="email"' in shown.text) == (200, may_change)
    bob.refresh_from_db()
    assert bob.email == "new@example.org"
