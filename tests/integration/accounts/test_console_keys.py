"""One's own keys in the console: seen, made, revoked and replaced by their owner alone."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts import services
from accounts.contracts import Limits
from accounts.keys import PREFIX
from accounts.models import AdministrativeChange, ApiKey, LimitCounter
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from accounts.scopes import DEFAULT_SCOPES, Scope
from accounts.self_service import SelfServiceBounds, self_service_set

pytestmark = pytest.mark.django_db
PAGE = "/console/keys/"


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def browser(ann: User) -> Client:
    client = Client()
    client.force_login(ann)
    return client


def form(browser: Client, **changed: Any) -> dict[str, Any]:
    """What the page's form sends."""
    page = browser.get(PAGE).content.decode()
    found = re.search(r'name="submission_id" value="([^"]+)"', page)
    return {
        "name": "laptop",
        "scopes": ["inference", "usage"],
        "submission_id": found[1] if found else "x",
        **changed,
    }


def shown_key(answer: Any) -> str:
    found = re.search(rf'value="({PREFIX}[^"]+)"', answer.content.decode())
    assert found is not None
    return found[1]


def test_without_keys_it_says_how_to_get_one(browser: Client, ann: User) -> None:
    assert "Ask an administrator" in browser.get(PAGE).content.decode()
    assert browser.post(PAGE, form(browser)).status_code == 403
    self_service_set(user=ann, bounds=SelfServiceBounds(max_keys=1))
    assert "Make the key" in browser.get(PAGE).content.decode()
    role_groups_ensure()
    role_set(user=ann, role=Role.OPERATOR)
    page = browser.get(PAGE).content.decode()
    assert "/admin/accounts/apikey/" in page


def test_a_key_is_made_within_the_bounds_and_shown_once(browser: Client, ann: User, caplog: Any) -> None:
    self_service_set(user=ann, bounds=SelfServiceBounds(max_keys=1, max_days=10))
    sent = form(browser)
    for wrong in (
        {"name": ""},
        {"name": "a\nb"},
        {"scopes": ["keys"]},
        {"scopes": []},
        {"expires_at": "2001-01-01T00:00"},
        {"expires_at": (timezone.now() + timedelta(days=11)).strftime("%Y-%m-%dT%H:%M")},
    ):
        answer = browser.post(PAGE, {**sent, **wrong})
        assert answer.status_code == 400 and "errorlist" in answer.content.decode(), wrong
    assert not ApiKey.objects.exists()
    answer = browser.post(PAGE, sent)
    key = shown_key(answer)
    assert "no-store" in answer["Cache-Control"]
    # With "no-referrer" a browser says "Origin: null" with each form, which is nobody's.
    assert answer["Referrer-Policy"] == "same-origin"
    (row,) = ApiKey.objects.all()
    assert (row.user, row.name, row.granted_scopes()) == (ann, "laptop", DEFAULT_SCOPES)
    assert row.expires_at is not None and row.expires_at <= timezone.now() + timedelta(days=10)
    # Sent again (a reload), and with a form of its own beyond the number.
    assert browser.post(PAGE, sent).status_code == 302
    again = browser.post(PAGE, form(browser, submission_id="other"))
    assert again.status_code == 400 and "revoke one" in again.content.decode()
    assert ApiKey.objects.count() == 1
    listed = browser.get(PAGE).content.decode()
    assert row.masked in listed and key not in listed
    assert key not in caplog.text
    assert not [one for one in AdministrativeChange.objects.all() if key in str(one.changes)]


def test_limits_are_told_with_what_is_used_of_them(browser: Client, ann: User) -> None:
    limits = Limits(max_tokens_per_day=5000, max_parallel_requests=2, allowed_models=("m-1",))
    key, _ = services.api_key_create(user=ann, name="<b>", limits=limits)
    today = timezone.now().date()
    LimitCounter.objects.create(
        scope="key",
        owner_id=key.pk,
        num_open=1,
        day_start=today,
        day_tokens=1234,
        week_tokens=1234,
        month_tokens=1234,
        week_start=today - timedelta(days=today.weekday()),
        month_start=today.replace(day=1),
    )
    page = browser.get(PAGE).content.decode()
    assert "1,234 of 5,000 tokens a day" in page and "1 of 2 requests at once" in page
    assert "m-1" in page and "&lt;b&gt;" in page and '<th scope="row"><b>' not in page


def test_a_page_of_many_keys_asks_no_more_than_one_of_few(
    browser: Client, ann: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        services.api_key_create(user=ann, name=str(number))
    with django_assert_max_num_queries(12):
        assert browser.get(PAGE).status_code == 200


def test_revoking_asks_first(browser: Client, ann: User) -> None:
    key, _ = services.api_key_create(user=ann, name="old")
    url = f"{PAGE}{key.pk}/revoke/"
    assert "cannot be undone" in browser.get(url).content.decode()
    key.refresh_from_db()
    assert key.revoked_at is None
    assert browser.post(url).status_code == browser.post(url).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None
    change = AdministrativeChange.objects.filter(subject_kind="api_key", subject_id=key.pk).latest("pk")
    assert (change.actor_name, set(change.changes)) == ("ann", {"revoked_at"})


def test_replacing_needs_the_right_to_make_such_a_key(browser: Client, ann: User) -> None:
    key, _ = services.api_key_create(user=ann, name="k", limits=Limits(max_tokens_per_day=7))
    rules, _ = services.api_key_create(user=ann, name="rules", scopes=frozenset({Scope.POLICIES}))
    url = f"{PAGE}{key.pk}/replace/"
    assert browser.post(url, {"grace": "0"}).status_code == 403
    self_service_set(user=ann, bounds=SelfServiceBounds(max_keys=2))
    assert browser.post(f"{PAGE}{rules.pk}/replace/", {"grace": "0"}).status_code == 403
    assert browser.post(url, {"grace": "99999999"}).status_code == 200  # asks again
    answer = browser.post(url, {"grace": "3600"})
    assert shown_key(answer)
    new = ApiKey.objects.get(rotated_from=key)
    assert (new.user, new.name, new.limits()) == (ann, "k", key.limits())
    key.refresh_from_db()
    assert key.revoked_at is None and key.expires_at is not None
    assert browser.post(url, {"grace": "0"}).status_code == 302
    assert ApiKey.objects.filter(user=ann).count() == 3


def test_replacing_again_and_again_makes_no_more_live_keys_than_allowed(browser: Client, ann: User) -> None:
    """Each has limits of its own, so they would be as many budgets."""
    self_service_set(user=ann, bounds=SelfServiceBounds(max_keys=1))
    first, _ = services.api_key_create(user=ann, name="k", limits=Limits(max_tokens_per_day=7))
    assert shown_key(browser.post(f"{PAGE}{first.pk}/replace/", {"grace": "604800"}))
    second = ApiKey.objects.get(rotated_from=first)
    refused = browser.post(f"{PAGE}{second.pk}/replace/", {"grace": "604800"}, follow=True)
    assert "go on still" in refused.content.decode()
    assert not ApiKey.objects.filter(rotated_from=second).exists()
    # What does not add one is free.
    assert shown_key(browser.post(f"{PAGE}{second.pk}/replace/", {"grace": "0"}))
    third = ApiKey.objects.get(rotated_from=second)
    assert browser.post(f"{PAGE}{first.pk}/revoke/").status_code == 302
    assert shown_key(browser.post(f"{PAGE}{third.pk}/replace/", {"grace": "3600"}))


def test_keys_of_others_are_not_there(browser: Client, ann: User) -> None:
    self_service_set(user=ann, bounds=SelfServiceBounds(max_keys=2))
    other, _ = services.api_key_create(user=User.objects.create_user("bob"), name="of bob")
    assert "of bob" not in browser.get(PAGE).content.decode()
    for what in ("revoke", "replace"):
        for number in (other.pk, 999_999_999, 10**30):
            assert browser.post(f"{PAGE}{number}/{what}/", {"grace": "0"}).status_code == 404
    other.refresh_from_db()
    assert other.revoked_at is None
