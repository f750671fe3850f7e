"""The live page and its socket's rights, as each kind of caller."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from inference.dashboards.live.rights import watching_sessions
from tests.integration.console.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
LIVE = reverse("console:live")


def session_of(client: Client) -> str:
    return client.cookies["sessionid"].value


def test_only_who_may_view_records_sees_the_page_and_may_watch(client, as_ann, operator, staff) -> None:
    others = [as_ann, staff(), staff("view_apikey", "change_modelrow", name="other")]
    cancel = reverse("console:live_cancel", args=[uuid4()])
    assert client.get(LIVE).status_code == client.post(cancel).status_code == 302
    for other in others:
        assert other.get(LIVE).status_code == other.post(cancel).status_code == 403
        assert "Live" not in other.get(reverse("console:start")).content.decode()
    page = operator.get(LIVE)
    assert (page.status_code, "no-store" in page["Cache-Control"]) == (200, True)
    assert not re.search(r"<script(?![^>]*src=)|style=|onclick=", page.content.decode())
    sessions = [session_of(one) for one in (*others, operator)]
    assert watching_sessions([*sessions, "made-up", ""]) == {session_of(operator)}


def test_what_has_ended_cannot_be_cancelled_and_a_token_is_needed(operator) -> None:
    cancel = reverse("console:live_cancel", args=[uuid4()])
    answer = operator.post(cancel)
    assert (answer.status_code, "ended" in answer.json()["message"]) == (404, True)
    assert operator.get(cancel).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    assert strict.post(cancel).status_code == 403


def test_a_session_ends_with_logout_password_right_and_user(staff) -> None:
    from django.contrib.auth.models import User

    client = staff("view_generationrecord", name="one")
    key = session_of(client)
    assert watching_sessions([key]) == {key}
    user = User.objects.get(username="one")
    user.user_permissions.clear()
    assert watching_sessions([key]) == set()
    user.is_superuser = True
    user.save()
    assert watching_sessions([key]) == {key}
    user.set_password("another one")
    user.save()
    assert watching_sessions([key]) == set()
    fresh = signed_in(user)
    again = session_of(fresh)
    assert watching_sessions([again]) == {again}
    fresh.post(reverse("account_logout"))
    assert watching_sessions([again]) == set()
    last = session_of(signed_in(user))
    user.is_active = False
    user.save()
    assert watching_sessions([last]) == set()
