"""Somebody who signs in, a browser of his, and the codes that his app shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.totp_app import TotpApp

PASSWORD = "first of all passwords"
LOGIN, CODE, SECURITY = "/console/login/", "/console/login/code/", "/console/account/security/"


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", email="ann@example.org", password=PASSWORD)


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", password=PASSWORD)


@pytest.fixture
def sign_in() -> Callable[..., Any]:
    def tried(name: str, password: str = PASSWORD, client: Client | None = None, **more: Any) -> Any:
        return (client or Client()).post(LOGIN, {"username": name, "password": password}, **more)

    return tried


@pytest.fixture
def set_up(sign_in: Any) -> Callable[..., TotpApp]:
    """Signs a user in, sets up his factor as he would, and gives his app with the recovery codes."""

    def done(name: str, client: Client) -> TotpApp:
        assert sign_in(name, client=client).status_code == 302
        page = f"{SECURITY}set-up/"
        assert client.get(page).url.startswith("/console/account/again/")
        again = client.post(f"/console/account/again/?next={page}", {"password": PASSWORD})
        assert again.url == page
        app = TotpApp(client.get(page).context["form"].secret)
        app.set_up_with = app.code()
        answer = client.post(page, {"code": app.set_up_with})
        assert answer.url == f"{SECURITY}codes/", answer.context and answer.context["form"].errors
        app.recovery_codes = client.get(answer.url).context["unused_codes"]
        return app

    return done
