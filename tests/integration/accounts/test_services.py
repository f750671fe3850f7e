"""Changing accounts: what is made, what is refused, and what two can do at once."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils import timezone

from accounts import keys, services
from accounts.contracts import KeyPriority, KeyState, Policy
from accounts.models import ApiKey

pytestmark = pytest.mark.django_db


def state_of(row: ApiKey) -> KeyState:
    return ApiKey.objects.select_related("user").get(pk=row.pk).state_at(timezone.now())


class TestUsers:
    def test_a_user_is_made_once_and_cannot_sign_in(self) -> None:
        user = services.user_ensure(username="ann")
        assert not user.has_usable_password()
        assert (user.is_staff, user.is_superuser) == (False, False)
        assert services.user_ensure(username="ann") == user
        assert User.objects.count() == 1

    def test_an_existing_user_keeps_the_password(self) -> None:
        User.objects.create_user("ann", password="secret word")
        assert services.user_ensure(username="ann").check_password("secret word")

    @pytest.mark.parametrize("name", ["", " ", "a b", "a\x00b", "\ud83d", "a\nb", "x" * 151], ids=ascii)
    def test_a_bad_name_is_refused(self, name) -> None:
        with pytest.raises(ValidationError) as caught:
            services.user_ensure(username=name)
        assert list(caught.value.message_dict) == ["username"]
        assert not User.objects.exists()


class TestCreate:
    def test_only_a_digest_and_the_ends_are_kept(self, ann) -> None:
        row, minted = services.api_key_create(user=ann, name="laptop")
        row = ApiKey.objects.get(pk=row.pk)
        assert row.digest == keys.digest_of(minted.plaintext)
        assert (row.visible_prefix, row.last4) == (minted.plaintext[:16], minted.plaintext[-4:])
        assert (row.expires_at, row.revoked_at, row.last_used_at) == (None, None, None)
        assert state_of(row) is KeyState.VALID

    @pytest.mark.parametrize("name", ["", "  ", "a\x00b", "\ud83d", "a\nb", "x" * 101], ids=ascii)
    def test_a_bad_name_is_refused_at_its_field(self, ann, name) -> None:
        with pytest.raises(ValidationError) as caught:
            services.api_key_create(user=ann, name=name)
        assert list(caught.value.message_dict) == ["name"]
        assert not ApiKey.objects.exists()

    def test_an_end_in_the_past_or_without_a_zone_is_refused(self, ann) -> None:
        for end in (timezone.now() - timedelta(seconds=1), datetime(2999, 1, 1)):
            with pytest.raises(ValidationError) as caught:
                services.api_key_create(user=ann, name="laptop", expires_at=end)
            assert list(caught.value.message_dict) == ["expires_at"]

    def test_an_inactive_user_gets_none(self, ann) -> None:
        ann.is_active = False
        with pytest.raises(ValidationError, match="inactive"):
            services.api_key_create(user=ann, name="laptop")


class TestUpdate:
    def test_name_and_end_change(self, key) -> None:
        end = timezone.now() + timedelta(days=1)
        services.api_key_update(key=key[0], name="desk", expires_at=end)
        row = ApiKey.objects.get(pk=key[0].pk)
        assert (row.name, row.expires_at) == ("desk", end)

    def test_an_expired_key_can_be_renamed_as_it_is(self, key) -> None:
        row = key[0]
        row.created_at, row.expires_at = timezone.now() - timedelta(2), timezone.now() - timedelta(1)
        row.save()
        services.api_key_update(key=row, name="old", expires_at=row.expires_at)
        with pytest.raises(ValidationError, match="future"):
            services.api_key_update(key=row, name="old", expires_at=row.expires_at + timedelta(hours=1))


class TestPolicies:
    @pytest.mark.parametrize(
        ("of_user", "of_key", "expected"),
        [
            (None, Policy(), (False, KeyPriority.NORMAL)),
            (Policy(True, KeyPriority.BATCH), Policy(), (True, KeyPriority.BATCH)),
            (Policy(False, KeyPriority.BATCH), Policy(True, KeyPriority.NORMAL), (True, KeyPriority.BATCH)),
            (Policy(False, KeyPriority.NORMAL), Policy(False, KeyPriority.BATCH), (False, KeyPriority.BATCH)),
            (Policy(False, None), Policy(False, KeyPriority.INTERACTIVE), (False, KeyPriority.INTERACTIVE)),
        ],
    )
    def test_what_was_decided_about_the_key_stays_below_what_was_decided_about_the_user(
        self, ann, of_user, of_key, expected
    ) -> None:
        if of_user is not None:
            services.user_policy_set(user=ann, policy=Policy())
            services.user_policy_set(user=ann, policy=of_user)
        row, _ = services.api_key_create(user=ann, name="laptop", policy=of_key)
        principal = ApiKey.objects.get(pk=row.pk).facts().principal
        assert (principal.has_session_trust, principal.priority) == expected

    def test_an_update_that_says_nothing_of_it_leaves_a_key_s_policy(self, ann) -> None:
        decided = Policy(has_session_trust=True, priority=KeyPriority.BATCH)
        row, _ = services.api_key_create(user=ann, name="laptop", policy=decided)
        services.api_key_update(key=row, name="desk", expires_at=None)
        assert ApiKey.objects.get(pk=row.pk).policy() == decided


class TestRevoke:
    def test_it_is_for_ever_and_keeps_its_first_instant(self, key) -> None:
        row = services.api_key_revoke(key=key[0])
        first = row.revoked_at
        assert state_of(row) is KeyState.REVOKED
        assert services.api_key_revoke(key=row).revoked_at == first

    def test_only_a_revoked_key_that_was_never_used_is_deleted(self, ann) -> None:
        mistake, _ = services.api_key_create(user=ann, name="mistake")
        with pytest.raises(ValidationError):
            services.api_key_delete(key=mistake)
        services.api_key_revoke(key=mistake)
        services.api_key_delete(key=mistake)
        used, _ = services.api_key_create(user=ann, name="used")
        used.last_used_at = timezone.now()
        used.save()
        services.api_key_revoke(key=used)
        with pytest.raises(ValidationError):
            services.api_key_delete(key=used)
        assert list(ApiKey.objects.all()) == [used]


class TestRotate:
    def test_at_once_the_old_key_is_revoked(self, key) -> None:
        old, old_minted = key
        new, minted = services.api_key_rotate(key=old)
        assert (state_of(old), state_of(new)) == (KeyState.REVOKED, KeyState.VALID)
        assert (new.user, new.name, new.rotated_from) == (old.user, old.name, old)
        assert minted.plaintext != old_minted.plaintext
        assert old.revoked_at is not None

    def test_with_a_grace_both_open_until_it_is_over(self, key) -> None:
        old = key[0]
        new, _ = services.api_key_rotate(key=old, grace=timedelta(hours=1))
        row = ApiKey.objects.select_related("user").get(pk=old.pk)
        assert row.state_at(timezone.now()) is KeyState.VALID
        assert row.state_at(timezone.now() + timedelta(hours=1)) is KeyState.EXPIRED
        assert new.expires_at is None

    def test_neither_key_outlives_the_end_that_was_set(self, ann) -> None:
        end = timezone.now() + timedelta(minutes=5)
        old, _ = services.api_key_create(user=ann, name="laptop", expires_at=end)
        new, _ = services.api_key_rotate(key=old, grace=timedelta(hours=1))
        assert (old.expires_at, new.expires_at) == (end, end)

    def test_a_key_that_opens_nothing_is_not_replaced(self, key, ann) -> None:
        ann.is_active = False
        ann.save()
        with pytest.raises(ValidationError, match="inactive"):
            services.api_key_rotate(key=key[0])
        services.api_key_revoke(key=key[0])
        with pytest.raises(ValidationError, match="revoked"):
            services.api_key_rotate(key=key[0])
        assert ApiKey.objects.count() == 1

    @pytest.mark.parametrize("grace", [timedelta(seconds=-1), timedelta(days=31)])
    def test_the_grace_is_bounded(self, key, grace) -> None:
        with pytest.raises(ValidationError, match="between 0 and 30 days"):
            services.api_key_rotate(key=key[0], grace=grace)

    @pytest.mark.django_db(transaction=True)
    def test_two_at_once_leave_one_new_key(self, key, in_threads) -> None:
        results = in_threads(lambda: services.api_key_rotate(key=key[0], grace=timedelta(hours=1)), 4)
        assert sum(isinstance(result, tuple) for result in results) == 1
        assert sum(isinstance(result, ValidationError) for result in results) == 3
        assert ApiKey.objects.count() == 2


class TestFirstAdministrator:
    def test_it_is_made_once_with_one_key(self) -> None:
        first = services.administrator_create_first()
        assert first is not None
        user = User.objects.get()
        assert (user.username, user.is_superuser, user.is_staff) == ("admin", True, True)
        assert user.check_password(first.password)
        row = ApiKey.objects.get()
        assert (row.user, row.name, row.digest) == (user, "default", keys.digest_of(first.api_key.plaintext))
        assert services.administrator_create_first() is None
        assert first.password not in repr(first)
        assert first.api_key.plaintext not in repr(first)

    def test_any_superuser_is_enough(self) -> None:
        User.objects.create_superuser("root", password="secret word")
        assert services.administrator_create_first() is None
        assert not ApiKey.objects.exists()

    def test_an_ordinary_user_of_that_name_is_not_promoted(self) -> None:
        services.user_ensure(username="admin")
        first = services.administrator_create_first()
        assert first is not None
        assert first.username.startswith("admin-")
        assert not User.objects.get(username="admin").is_superuser
        assert User.objects.get(username=first.username).is_superuser

    @pytest.mark.django_db(transaction=True)
    def test_several_starts_at_once_make_one(self, in_threads) -> None:
        results = in_threads(services.administrator_create_first, 4)
        assert sum(isinstance(result, services.FirstAdministrator) for result in results) == 1
        assert results.count(None) == 3
        assert (User.objects.count(), ApiKey.objects.count()) == (1, 1)
