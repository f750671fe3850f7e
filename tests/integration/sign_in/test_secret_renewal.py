"""The service's secret key is another one: what was encrypted with the one before goes on, and is told where
it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AdministrativeChange
from hooks.models import Webhook
from hooks.selectors import policy_snapshot_read
from tests.integration.hooks.conftest import SECRET, make_webhook
from tests.integration.sign_in.conftest import CODE
from tests.totp_app import TotpApp

# The other folder's fixture, here too. (Named once, so that the linter sees it used.)
FIXTURES = (make_webhook,)


def renew(*arguments: str) -> str:
    out = StringIO()
    call_command("secrets_reencrypt", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def app(root: User, set_up: Callable[..., TotpApp]) -> TotpApp:
    """Of somebody with a second factor and recovery codes."""
    return set_up("root", Client())


def enters(sign_in: Callable[..., Any], code: str) -> bool:
    client = Client()
    assert sign_in("root", client=client).url.startswith(CODE)
    return bool(client.post(CODE, {"code": code}).status_code == 302)


def test_all_secrets_are_encrypted_with_the_present_key_once(
    app: TotpApp, make_webhook: Callable[[str], None], sign_in: Any, settings: Any
) -> None:
    """And the key before can be forgotten afterwards."""
    make_webhook("old")
    before = Webhook.objects.get().secret_encrypted
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key altogether " * 2, [settings.SECRET_KEY]
    make_webhook("new")

    assert json.loads(renew("--json")) == {
        "webhook": {"renewed": ["old"], "unreadable": [], "num_current": 1},
        "second factor": {"renewed": ["root", "root"], "unreadable": [], "num_current": 0},
    }
    assert Webhook.objects.get(name="old").secret_encrypted != before
    settings.SECRET_KEY_FALLBACKS = []
    assert {one.secret for one in policy_snapshot_read().webhooks.values()} == {SECRET}
    assert enters(sign_in, app.recovery_codes[0]) and enters(sign_in, app.code(later=1))
    changes = {"secret encrypted with": ["a former key", "the present key"]}
    told = AdministrativeChange.objects.filter(changes=changes)
    assert sorted(told.values_list("subject_kind", flat=True)) == ["second_factor"] * 2 + ["webhook"]
    assert renew() == "0 encrypted anew, 4 were already.\n"


def test_a_secret_that_no_key_opens_is_named_and_the_others_are_done(
    app: TotpApp, make_webhook: Callable[[str], None], settings: Any
) -> None:
    make_webhook("lost")
    settings.SECRET_KEY = "a key that nobody wrote down " * 2
    make_webhook("old")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the present key of all " * 2, [settings.SECRET_KEY]

    stored = list(Authenticator.objects.order_by("pk").values_list("data", flat=True))
    with pytest.raises(CommandError) as problem:
        renew()
    assert "webhook of 'lost', second factor of 'root'" in str(problem.value)
    assert "'old'" not in str(problem.value)
    settings.SECRET_KEY_FALLBACKS = []
    assert [one.name for one in policy_snapshot_read().webhooks.values()] == ["old"]
    assert list(Authenticator.objects.order_by("pk").values_list("data", flat=True)) == stored
