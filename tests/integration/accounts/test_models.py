"""What the database itself refuses, whoever writes to it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from accounts import keys
from accounts.models import ApiKey

pytestmark = pytest.mark.django_db


def row(user, **changes) -> ApiKey:
    minted = keys.mint()
    values = {
        "user": user,
        "name": "laptop",
        "digest": minted.digest,
        "visible_prefix": minted.visible_prefix,
        "last4": minted.last4,
    }
    return ApiKey(**{**values, **changes})


@pytest.mark.parametrize("digest", ["", "A" * 64, "0" * 63, "sk-skippy-" + "0" * 49, "g" * 64])
def test_a_digest_that_is_no_sha256_is_refused(ann, digest) -> None:
    with pytest.raises(IntegrityError, match="apikey_digest_is_sha256"), transaction.atomic():
        row(ann, digest=digest).save()


def test_two_keys_never_have_one_digest(ann, key) -> None:
    with pytest.raises(IntegrityError, match="apikey_digest_unique"), transaction.atomic():
        row(ann, digest=key[0].digest).save()


def test_a_name_is_not_empty(ann) -> None:
    with pytest.raises(IntegrityError, match="apikey_name_not_empty"), transaction.atomic():
        row(ann, name="").save()


def test_a_key_does_not_end_before_it_begins(ann) -> None:
    now = timezone.now()
    with pytest.raises(IntegrityError, match="apikey_expires_after_creation"), transaction.atomic():
        row(ann, created_at=now, expires_at=now - timedelta(seconds=1)).save()


def test_a_user_with_keys_is_not_deleted(ann, key) -> None:
    with pytest.raises(ProtectedError):
        ann.delete()


def test_text_of_a_key_shows_its_ends_only(key) -> None:
    stored, minted = key
    for text in (str(stored), repr(stored)):
        assert f"{minted.plaintext[:16]}…{minted.plaintext[-4:]}" in text
        assert minted.plaintext[16:-4] not in text
