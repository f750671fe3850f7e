"""Keys and users in Django's admin: what is shown once, who may do what, and how many queries it takes."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts import keys, services
from accounts.contracts import KeyPriority, Policy
from accounts.models import ApiKey
from accounts.selectors import api_key_cache, api_key_lookup

pytestmark = pytest.mark.django_db

LIST = reverse("admin:accounts_apikey_changelist")
ADD = reverse("admin:accounts_apikey_add")


def page(name: str, row: ApiKey) -> str:
    return reverse(f"admin:accounts_apikey_{name}", args=[row.pk])


def keys_in(response) -> list[str]:
    found = re.findall(r"sk-skippy-[0-9A-Za-z]{49}", unescape(response.content.decode()))
    return [text for text in found if keys.is_well_formed(text)]


POLICY_FORM = {
    "policy-TOTAL_FORMS": "1",
    "policy-INITIAL_FORMS": "0",
    "policy-MIN_NUM_FORMS": "0",
    "policy-MAX_NUM_FORMS": "1",
}


def add_form(client: Client, owner: User, **changes: object) -> dict[str, object]:
    """What a browser would send: the form that was fetched, filled in."""
    html = client.get(ADD).content.decode()
    submission_id = re.search(r'name="submission_id" value="([^"]+)"', html)
    assert submission_id
    filled = {"user": owner.pk, "name": "laptop", "expires_at_0": "", "expires_at_1": ""}
    return {**filled, "submission_id": submission_id[1], **changes}


def staff(client: Client, *permissions: str) -> Client:
    user = User.objects.create_user("member", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


class TestPolicy:
    def test_a_key_is_given_trust_and_priority_and_keeps_them_when_it_is_replaced(
        self, admin_client, ann
    ) -> None:
        form = add_form(admin_client, ann, has_session_trust="on", priority="interactive")
        assert admin_client.post(ADD, form).status_code == 200
        row = ApiKey.objects.get()
        assert row.policy() == Policy(has_session_trust=True, priority=KeyPriority.INTERACTIVE)
        admin_client.post(page("rotate", row), {"grace": "0"})
        new = ApiKey.objects.get(rotated_from=row)
        assert new.policy() == row.policy()
        sent = {"name": "desk", "expires_at_0": "", "expires_at_1": "", "priority": ""}
        assert admin_client.post(page("change", new), sent).status_code == 302
        new.refresh_from_db()
        assert new.policy() == Policy()

    def test_an_invented_priority_is_refused(self, admin_client, ann) -> None:
        response = admin_client.post(ADD, add_form(admin_client, ann, priority="urgent"))
        assert "urgent is not one of the available choices" in unescape(response.content.decode())
        assert not ApiKey.objects.exists()


class TestAdd:
    def test_the_new_key_is_in_the_answer_once_and_works(self, admin_client, ann) -> None:
        response = admin_client.post(ADD, add_form(admin_client, ann))
        assert response.status_code == 200
        (plaintext,) = keys_in(response)
        row = ApiKey.objects.get()
        assert (row.user, row.name, row.digest) == (ann, "laptop", keys.digest_of(plaintext))
        assert "no-store" in response["Cache-Control"]
        assert "max-age" not in response["Cache-Control"].replace("max-age=0", "")

    def test_it_is_nowhere_afterwards(self, admin_client, ann) -> None:
        form = add_form(admin_client, ann)
        (plaintext,) = keys_in(admin_client.post(ADD, form))
        row = ApiKey.objects.get()
        secret = plaintext[16:-4]
        for url in (
            LIST,
            ADD,
            page("change", row),
            page("history", row),
            page("rotate", row),
            reverse("admin:index"),
        ):
            text = admin_client.get(url).content.decode()
            assert secret not in text
            assert row.digest not in text
        assert secret not in repr(dict(admin_client.session))
        assert secret not in admin_client.cookies.output()
        for entry in LogEntry.objects.all():
            assert secret not in entry.object_repr + entry.change_message

    def test_sending_the_form_again_makes_and_shows_nothing(self, admin_client, ann) -> None:
        form = add_form(admin_client, ann)
        admin_client.post(ADD, form)
        again = admin_client.post(ADD, form)
        assert (again.status_code, again.url) == (302, LIST)
        shown = admin_client.get(LIST)
        assert keys_in(shown) == []
        assert "was sent already" in shown.content.decode()
        assert ApiKey.objects.count() == 1
        # A form that was fetched anew is a new key.
        assert len(keys_in(admin_client.post(ADD, add_form(admin_client, ann)))) == 1

    def test_a_popup_shows_it_too(self, admin_client, ann) -> None:
        assert len(keys_in(admin_client.post(ADD, add_form(admin_client, ann, _popup="1")))) == 1

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"name": "a\x00b"}, "Null characters are not allowed"),
            ({"name": "a\u202eb"}, "text direction control"),
            ({"name": "x" * 101}, "at most 100 characters"),
            ({"name": ""}, "This field is required"),
            ({"expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"}, "must lie in the future"),
            ({"user": "999999"}, "Select a valid choice"),
        ],
    )
    def test_wrong_input_is_told_at_its_field(self, admin_client, ann, changes, complaint) -> None:
        response = admin_client.post(ADD, add_form(admin_client, ann, **changes))
        assert response.status_code == 200
        assert complaint in response.content.decode()
        assert not ApiKey.objects.exists()

    def test_bytes_that_are_no_utf8_do_no_harm(self, admin_client, ann) -> None:
        form = add_form(admin_client, ann)
        body = "&".join(f"{name}={value}" for name, value in form.items()).replace("laptop", "a%ED%A0%BDb")
        response = admin_client.post(ADD, body, content_type="application/x-www-form-urlencoded")
        assert response.status_code == 200
        assert ApiKey.objects.get().name.encode()

    def test_an_inactive_user_gets_none(self, admin_client, ann) -> None:
        ann.is_active = False
        ann.save()
        response = admin_client.post(ADD, add_form(admin_client, ann))
        assert "a key would open nothing" in response.content.decode()
        assert not ApiKey.objects.exists()


class TestChange:
    def test_name_and_end_change_and_nothing_else(self, admin_client, key, ann) -> None:
        row, minted = key
        other = services.user_ensure(username="bob")
        sent = {
            "name": "desk",
            "expires_at_0": "2999-01-01",
            "expires_at_1": "00:00:00",
            "user": other.pk,
            "digest": "0" * 64,
            "revoked_at_0": "2001-01-01",
        }
        assert admin_client.post(page("change", row), sent).status_code == 302
        changed = ApiKey.objects.get(pk=row.pk)
        assert (changed.name, changed.expires_at.year) == ("desk", 2999)
        assert (changed.user, changed.digest, changed.revoked_at) == (ann, minted.digest, None)

    def test_an_end_keeps_its_fraction_of_a_second_when_only_the_name_changes(
        self, admin_client, key
    ) -> None:
        row = key[0]
        end = timezone.now().replace(microsecond=123_456) + timedelta(days=1)
        ApiKey.objects.filter(pk=row.pk).update(expires_at=end)
        sent = {"name": "desk", "expires_at_0": f"{end:%Y-%m-%d}", "expires_at_1": f"{end:%H:%M:%S}"}
        assert admin_client.post(page("change", row), sent).status_code == 302
        assert ApiKey.objects.get(pk=row.pk).expires_at == end

    def test_an_end_in_the_past_is_refused_but_an_expired_key_can_be_renamed(self, admin_client, key) -> None:
        row = key[0]
        past = timezone.now() - timedelta(days=1)
        ApiKey.objects.filter(pk=row.pk).update(created_at=past - timedelta(days=1), expires_at=past)
        sent = {"name": "desk", "expires_at_0": f"{past:%Y-%m-%d}", "expires_at_1": f"{past:%H:%M:%S}"}
        assert admin_client.post(page("change", row), sent).status_code == 302
        assert ApiKey.objects.get(pk=row.pk).name == "desk"
        sent["expires_at_0"] = "2001-01-01"
        refused = admin_client.post(page("change", row), sent)
        assert "must lie in the future" in refused.content.decode()

    def test_a_revoked_key_keeps_its_end_and_offers_no_more_steps(self, admin_client, key) -> None:
        row = services.api_key_revoke(key=key[0])
        sent = {"name": "desk", "expires_at_0": "2999-01-01", "expires_at_1": "00:00:00"}
        assert admin_client.post(page("change", row), sent).status_code == 302
        assert ApiKey.objects.get(pk=row.pk).expires_at is None
        html = admin_client.get(page("change", row)).content.decode()
        assert page("rotate", row) not in html
        assert page("revoke", row) not in html


class TestRevoke:
    def test_one_key_from_its_page_after_a_question(self, admin_client, key) -> None:
        row = key[0]
        assert page("revoke", row) in admin_client.get(page("change", row)).content.decode()
        assert "cannot be undone" in admin_client.get(page("revoke", row)).content.decode()
        assert ApiKey.objects.get().revoked_at is None
        assert admin_client.post(page("revoke", row)).url == LIST
        assert ApiKey.objects.get().revoked_at is not None
        assert LogEntry.objects.get().change_message == "Revoked."

    def test_several_from_the_list_after_a_question(self, admin_client, ann, key) -> None:
        other, _ = services.api_key_create(user=ann, name="other")
        stays, _ = services.api_key_create(user=ann, name="stays")
        sent = {"action": "revoke_selected", "_selected_action": [key[0].pk, other.pk]}
        asked = admin_client.post(LIST, sent)
        assert "cannot be undone" in asked.content.decode()
        assert not ApiKey.objects.filter(revoked_at__isnull=False).exists()
        done = admin_client.post(LIST, {**sent, "confirmed": "yes"}, follow=True)
        assert "2 of 2 revoked" in done.content.decode()
        assert list(ApiKey.objects.filter(revoked_at=None)) == [stays]

    @pytest.mark.django_db(transaction=True)
    async def test_the_key_stops_at_once_in_this_process(self, async_client, key) -> None:
        row, minted = key
        root = await User.objects.acreate(username="root", is_staff=True, is_superuser=True)
        await async_client.aforce_login(root)
        assert (await api_key_lookup(plaintext=minted.plaintext)).principal is not None
        await async_client.post(page("revoke", row))
        assert (await api_key_lookup(plaintext=minted.plaintext)).principal is None


class TestRotate:
    def test_the_new_key_is_shown_once(self, admin_client, key) -> None:
        row, old = key
        response = admin_client.post(page("rotate", row), {"grace": "1d"})
        (plaintext,) = keys_in(response)
        new = ApiKey.objects.get(rotated_from=row)
        assert new.digest == keys.digest_of(plaintext) != old.digest
        assert "no-store" in response["Cache-Control"]
        row.refresh_from_db()
        assert row.revoked_at is None
        assert row.expires_at is not None
        again = admin_client.post(page("rotate", row), {"grace": "1d"})
        assert again.status_code == 302
        assert "replaced already" in str(next(iter(get_messages(again.wsgi_request))))
        assert ApiKey.objects.count() == 2
        for url in (LIST, page("change", new), page("history", new), page("history", row)):
            assert plaintext[16:-4] not in admin_client.get(url).content.decode()

    def test_without_an_answer_it_asks(self, admin_client, key) -> None:
        for response in (
            admin_client.get(page("rotate", key[0])),
            admin_client.post(page("rotate", key[0]), {"grace": "for ever"}),
        ):
            assert 'name="grace"' in response.content.decode()
        assert ApiKey.objects.count() == 1

    def test_from_the_list_one_key_at_a_time(self, admin_client, ann, key) -> None:
        other, _ = services.api_key_create(user=ann, name="other")
        sent = {"action": "rotate_selected", "_selected_action": [key[0].pk]}
        assert admin_client.post(LIST, sent).url == page("rotate", key[0])
        sent["_selected_action"].append(other.pk)
        refused = admin_client.post(LIST, sent, follow=True)
        assert "Select one key" in refused.content.decode()


class TestDelete:
    def test_only_a_revoked_key_that_was_never_used(self, admin_client, key) -> None:
        row = key[0]
        assert admin_client.post(page("delete", row), {"post": "yes"}).status_code == 403
        services.api_key_revoke(key=row)
        ApiKey.objects.update(last_used_at=timezone.now())
        assert admin_client.post(page("delete", row), {"post": "yes"}).status_code == 403
        ApiKey.objects.update(last_used_at=None)
        assert admin_client.post(page("delete", row), {"post": "yes"}).status_code == 302
        assert not ApiKey.objects.exists()

    def test_not_many_at_once(self, admin_client, key) -> None:
        sent = {"action": "delete_selected", "_selected_action": [key[0].pk], "post": "yes"}
        admin_client.post(LIST, sent)
        assert ApiKey.objects.exists()

    def test_a_user_with_keys_is_not_deleted(self, admin_client, ann, key) -> None:
        url = reverse("admin:auth_user_delete", args=[ann.pk])
        assert "Cannot delete user" in admin_client.post(url, {"post": "yes"}).content.decode()
        assert User.objects.filter(pk=ann.pk).exists()


class TestPermissions:
    def test_nobody_gets_in_without_signing_in(self, client, key) -> None:
        for url in (LIST, ADD, page("change", key[0]), page("revoke", key[0]), page("rotate", key[0])):
            for response in (client.get(url), client.post(url)):
                assert response.status_code == 302
                assert response.url.startswith(reverse("admin:login"))

    def test_who_may_look_may_not_change(self, client, key) -> None:
        row = key[0]
        client = staff(client, "view_apikey")
        for url in (LIST, page("change", row), page("history", row)):
            response = client.get(url)
            assert response.status_code == 200
            assert row.digest not in response.content.decode()
            assert page("rotate", row) not in response.content.decode()
        assert client.get(ADD).status_code == 403
        for url in (page("revoke", row), page("rotate", row)):
            assert client.get(url).status_code == 403
            assert client.post(url, {"grace": "0"}).status_code == 403
        assert client.post(page("change", row), {"name": "x"}).status_code == 403
        sent = {"action": "revoke_selected", "_selected_action": [row.pk], "confirmed": "yes"}
        client.post(LIST, sent)
        unchanged = ApiKey.objects.get()
        assert (unchanged.name, unchanged.revoked_at) == ("laptop", None)

    def test_who_may_change_may_revoke_but_not_make_a_key_by_rotating(self, client, key) -> None:
        client = staff(client, "view_apikey", "change_apikey")
        assert client.post(page("rotate", key[0]), {"grace": "0"}).status_code == 403
        assert client.post(page("revoke", key[0])).status_code == 302
        assert ApiKey.objects.get().revoked_at is not None

    def test_forms_are_protected_against_other_sites(self, key) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(User.objects.create_superuser("root"))
        for url in (ADD, page("revoke", key[0]), page("rotate", key[0])):
            assert client.post(url, {"grace": "0"}).status_code == 403
        assert ApiKey.objects.get().revoked_at is None


class TestList:
    def test_it_takes_as_many_queries_for_200_rows_as_for_10(self, admin_client) -> None:
        counts = []
        for total in (10, 200):
            for number in range(ApiKey.objects.count(), total):
                owner = services.user_ensure(username=f"user-{number}")
                services.api_key_create(user=owner, name=f"key {number}")
            with CaptureQueriesContext(connection) as captured:
                response = admin_client.get(LIST)
            assert response.status_code == 200
            counts.append(len(captured))
        assert counts[0] == counts[1] <= 15

    def test_a_key_page_takes_few_queries(self, admin_client, key, django_assert_max_num_queries) -> None:
        new, _ = services.api_key_rotate(key=key[0])
        with django_assert_max_num_queries(15):
            assert admin_client.get(page("change", new)).status_code == 200

    def test_it_is_searched_by_name_prefix_and_user(self, admin_client, key) -> None:
        row, _ = key
        services.api_key_create(user=services.user_ensure(username="bob"), name="other")
        for wanted in ("lapt", row.visible_prefix, "ann"):
            shown = admin_client.get(LIST, {"q": wanted}).context["cl"].queryset
            assert list(shown) == [row], wanted

    @pytest.mark.parametrize(
        "query", ["q=%00", "q=%ED%A0%BD", "state=%00", "state=nonsense", "p=x", "e=1", "o=%00"]
    )
    def test_odd_addresses_do_not_break_it(self, admin_client, key, query) -> None:
        assert admin_client.get(f"{LIST}?{query}", follow=True).status_code == 200

    @pytest.mark.parametrize("part", ["1%00", "x", "9" * 30, "%ED%A0%BD"])
    @pytest.mark.parametrize("step", ["change", "revoke", "rotate"])
    def test_keys_that_are_not_there_lead_back(self, admin_client, part, step) -> None:
        response = admin_client.get(f"{LIST}{part}/{step}/")
        assert response.status_code == 302

    def test_states_are_told_and_filtered_alike(self, admin_client, ann) -> None:
        now = timezone.now()
        bob = services.user_ensure(username="bob")
        rows = {}
        for state, owner in [("valid", ann), ("expired", ann), ("revoked", bob), ("user_inactive", bob)]:
            rows[state], _ = services.api_key_create(user=owner, name=state)
        old = ApiKey.objects.filter(name__in=["expired", "revoked"])
        old.update(created_at=now - timedelta(2), expires_at=now - timedelta(1))
        services.api_key_revoke(key=rows["revoked"])
        User.objects.filter(pk=bob.pk).update(is_active=False)
        for state, row in rows.items():
            response = admin_client.get(LIST, {"state": state})
            assert list(response.context["cl"].queryset) == [row]
            cell = rf"<td[^>]*field-state[^>]*>\s*{state.replace('_', ' ')}\s*</td>"
            assert re.search(cell, response.content.decode())


class TestUsers:
    @pytest.mark.django_db(transaction=True)
    async def test_switching_a_user_off_stops_the_keys_at_once(self, async_client, ann, key) -> None:
        root = await User.objects.acreate(username="root", is_staff=True, is_superuser=True)
        await async_client.aforce_login(root)
        plaintext = key[1].plaintext
        assert (await api_key_lookup(plaintext=plaintext)).principal is not None
        joined = ann.date_joined
        sent = {
            "username": "ann",
            "date_joined_0": f"{joined:%Y-%m-%d}",
            "date_joined_1": f"{joined:%H:%M:%S}",
            **POLICY_FORM,
        }
        response = await async_client.post(reverse("admin:auth_user_change", args=[ann.pk]), sent)
        assert response.status_code == 302
        assert (await api_key_lookup(plaintext=plaintext)).principal is None

    @pytest.mark.django_db(transaction=True)
    async def test_a_user_s_policy_reaches_its_keys_at_once(self, async_client, ann, key) -> None:
        root = await User.objects.acreate_superuser("root", password="x")
        await async_client.aforce_login(root)
        before = (await api_key_lookup(plaintext=key[1].plaintext)).principal
        assert (before.has_session_trust, before.priority) == (False, KeyPriority.NORMAL)
        joined = ann.date_joined
        sent = {
            "username": "ann",
            "is_active": "on",
            "date_joined_0": f"{joined:%Y-%m-%d}",
            "date_joined_1": f"{joined:%H:%M:%S}",
            **POLICY_FORM,
            "policy-0-has_session_trust": "on",
            "policy-0-priority": "batch",
            "policy-0-user": str(ann.pk),
        }
        response = await async_client.post(reverse("admin:auth_user_change", args=[ann.pk]), sent)
        assert response.status_code == 302
        after = (await api_key_lookup(plaintext=key[1].plaintext)).principal
        assert (after.has_session_trust, after.priority) == (True, KeyPriority.BATCH)

    def test_the_list_takes_as_many_queries_for_200_users_as_for_10(self, admin_client) -> None:
        counts = []
        for total in (10, 200):
            User.objects.bulk_create(
                User(username=f"user-{number}") for number in range(User.objects.count(), total)
            )
            with CaptureQueriesContext(connection) as captured:
                assert admin_client.get(reverse("admin:auth_user_changelist")).status_code == 200
            counts.append(len(captured))
        assert counts[0] == counts[1] <= 15


def test_what_the_cache_holds_is_no_secret(key) -> None:
    assert key[1].plaintext[16:-4] not in repr(api_key_cache)
