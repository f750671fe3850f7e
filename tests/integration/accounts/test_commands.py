"""The commands that scripts use: one JSON object, one sentence on failure, no secret twice."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts import keys, services
from accounts.contracts import KeyPriority, Policy
from accounts.models import ApiKey
from accounts.scopes import Scope

pytestmark = pytest.mark.django_db


def output_of(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


class TestCreate:
    def test_priority_and_session_trust_are_given_with_it(self) -> None:
        arguments = ("--user", "ann", "--name", "x", "--priority", "batch", "--session-trust", "--json")
        row = ApiKey.objects.get(pk=json.loads(output_of("api_key_create", *arguments))["id"])
        assert row.policy() == Policy(has_session_trust=True, priority=KeyPriority.BATCH)

    def test_scopes_are_what_was_named_and_nothing_else(self) -> None:
        arguments = ("--user", "ann", "--name", "x", "--scope", "metrics", "--scope", "keys", "--json")
        answer = json.loads(output_of("api_key_create", *arguments))
        assert answer["scopes"] == ["keys", "metrics"]
        assert ApiKey.objects.get(pk=answer["id"]).facts().principal.scopes == {Scope.KEYS, Scope.METRICS}

    def test_json_is_one_object_with_the_key(self) -> None:
        answer = json.loads(output_of("api_key_create", "--user", "ann", "--name", "Büro", "--json"))
        row = ApiKey.objects.get()
        assert answer == {
            "key": answer["key"],
            "id": row.pk,
            "prefix": answer["key"][:16],
            "last4": answer["key"][-4:],
            "user": "ann",
            "name": "Büro",
            "scopes": ["inference", "usage"],
            "state": "valid",
            "created_at": row.created_at.isoformat(),
            "expires_at": None,
            "revoked_at": None,
            "last_used_at": None,
            "limits": {},
        }
        assert keys.digest_of(answer["key"]) == row.digest

    def test_the_user_is_made_or_found(self, ann) -> None:
        for user in ("ann", "bob", "bob"):
            output_of("api_key_create", "--user", user, "--name", "x")
        assert set(User.objects.values_list("username", flat=True)) == {"ann", "bob"}
        assert ApiKey.objects.count() == 3

    def test_text_shows_the_key_once(self) -> None:
        text = output_of("api_key_create", "--user", "ann", "--name", "laptop")
        found = [word for word in text.split() if keys.is_well_formed(word)]
        assert len(found) == 1
        assert "does not expire" in text

    def test_an_expiry_in_days(self) -> None:
        arguments = ("--user", "ann", "--name", "x", "--expires-in-days", "30", "--json")
        answer = json.loads(output_of("api_key_create", *arguments))
        end = datetime.fromisoformat(answer["expires_at"])
        assert abs(end - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
        assert "expires on" in output_of("api_key_create", *arguments[:-1])

    @pytest.mark.parametrize("days", ["0", "-1", "1.5", "x", "99999999999", "²"])
    def test_a_wrong_number_of_days_is_refused(self, days) -> None:
        with pytest.raises(CommandError, match="whole number of days"):
            output_of("api_key_create", "--user", "ann", "--name", "x", f"--expires-in-days={days}")

    @pytest.mark.parametrize(
        ("user", "name"),
        [("a b", "x"), ("", "x"), ("ann", ""), ("ann", "a\x00b"), ("ann", "\udcff")],
        ids=ascii,
    )
    def test_a_wrong_name_is_one_sentence_and_leaves_no_user(self, user, name) -> None:
        with pytest.raises(CommandError) as caught:
            output_of("api_key_create", "--user", user, "--name", name)
        assert "\n" not in str(caught.value)
        assert not User.objects.exists()


class TestRevoke:
    def test_by_id_and_by_prefix(self, ann) -> None:
        for reference in (lambda row: str(row.pk), lambda row: row.visible_prefix):
            row, _ = services.api_key_create(user=ann, name="laptop")
            answer = json.loads(output_of("api_key_revoke", reference(row), "--json"))
            assert (answer["id"], answer["state"]) == (row.pk, "revoked")
            row.refresh_from_db()
            assert answer["revoked_at"] == row.revoked_at.isoformat()

    def test_a_leaked_key_can_be_given_whole_and_is_not_repeated(self, key) -> None:
        row, minted = key
        text = output_of("api_key_revoke", minted.plaintext)
        assert f"id {row.pk}" in text
        assert minted.plaintext[16:-4] not in text
        assert "revoked already" in output_of("api_key_revoke", str(row.pk))

    def test_an_ambiguous_prefix_revokes_nothing(self, ann, key) -> None:
        twin, _ = services.api_key_create(user=ann, name="twin")
        ApiKey.objects.filter(pk=twin.pk).update(visible_prefix=key[0].visible_prefix)
        with pytest.raises(CommandError, match="More than one key"):
            output_of("api_key_revoke", key[0].visible_prefix)
        assert not ApiKey.objects.filter(revoked_at__isnull=False).exists()

    def test_a_key_that_is_not_there_is_one_sentence(self) -> None:
        with pytest.raises(CommandError, match="There is no such key"):
            output_of("api_key_revoke", "1")


class TestList:
    def test_json_has_all_keys_or_those_of_one_user_and_no_secrets(self, key) -> None:
        _, minted = key
        other, _ = services.api_key_create(user=services.user_ensure(username="bob"), name="x")
        services.api_key_revoke(key=other)
        everything = output_of("api_key_list", "--json")
        assert [(one["user"], one["state"]) for one in json.loads(everything)] == [
            ("bob", "revoked"),
            ("ann", "valid"),
        ]
        assert [one["user"] for one in json.loads(output_of("api_key_list", "--user", "ann", "--json"))] == [
            "ann"
        ]
        assert minted.digest not in everything
        assert minted.plaintext[16:-4] not in everything

    def test_text_is_a_table_that_leaves_names_as_they_are(self, ann) -> None:
        services.api_key_create(user=ann, name="2026-01-01T00:00:00")
        text = output_of("api_key_list")
        assert "2026-01-01T00:00:00" in text
        assert text.splitlines()[0].split()[:3] == ["id", "prefix", "last4"]
        assert output_of("api_key_list", "--user", "nobody") == "No API keys.\n"
