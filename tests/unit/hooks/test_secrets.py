import logging

import pytest

from hooks.secrets import SecretBox, SecretUnreadable

SECRET = "correct horse battery staple"


def test_what_was_sealed_is_opened_again():
    box = SecretBox("service secret")

    assert box.open(box.seal(SECRET), owner="review") == SECRET
    assert SecretBox("service secret").open(box.seal("ä 🔑"), owner="review") == "ä 🔑"


def test_what_is_stored_does_not_hold_the_secret_and_is_different_each_time():
    box = SecretBox("service secret")
    first, second = box.seal(SECRET), box.seal(SECRET)

    assert first != second
    assert first.isascii()
    assert SECRET not in first
    assert "service secret" not in first


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-4], lambda text: "", lambda text: "ü", lambda text: text[::-1]]
)
def test_what_is_damaged_is_an_error_that_names_the_webhook(damage):
    box = SecretBox("service secret")

    with pytest.raises(SecretUnreadable, match="'review'") as caught:
        box.open(damage(box.seal(SECRET)), owner="review")
    assert caught.value.owner == "review"


def test_another_service_secret_is_an_error_that_says_what_to_do(caplog):
    caplog.set_level(logging.DEBUG)
    sealed = SecretBox("old secret").seal(SECRET)

    with pytest.raises(SecretUnreadable, match=r"'review'.*SKIPPY_OLD_SECRET_KEYS") as caught:
        SecretBox("new secret").open(sealed, owner="review")

    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    for told in (str(caught.value), caplog.text):
        assert SECRET not in told
        assert sealed not in told


def test_a_service_that_is_told_its_older_secrets_reads_what_they_sealed():
    sealed = SecretBox("oldest").seal(SECRET)
    box = SecretBox("new", ("old", "oldest"))

    assert box.open(sealed, owner="review") == SECRET
    assert SecretBox("new").open(box.seal(SECRET), owner="review") == SECRET


def test_no_key_is_shown_and_none_is_empty():
    assert "service secret" not in repr(SecretBox("service secret"))
    with pytest.raises(ValueError, match="empty"):
        SecretBox("")
    with pytest.raises(ValueError, match="empty"):
        SecretBox("new", ("",))
