import dataclasses

import pytest

from hooks.contracts.webhook_settings import WebhookSettings

SETTINGS = WebhookSettings(
    webhook_id=3,
    name="review",
    url="https://hook.example/a-secret-path?token=x",
    secret="keep-this-to-yourself",
)


def test_neither_the_secret_nor_the_path_is_shown():
    shown = f"{SETTINGS!r} {SETTINGS}"

    assert "review" in shown and "hook.example" in shown
    assert "keep-this" not in shown
    assert "secret-path" not in shown and "token" not in shown


def test_nothing_is_allowed_that_is_not_named():
    assert not SETTINGS.rights.parts
    assert not SETTINGS.rights.actions
    assert not SETTINGS.allows_private


@pytest.mark.parametrize("url", ["", "https://[::1/", "not a url"])
def test_a_malformed_url_has_no_host(url):
    assert dataclasses.replace(SETTINGS, url=url).host == ""
