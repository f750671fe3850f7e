"""Pages in headless Chromium, served by Django's own live server; skipped where there is no Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accounts import services

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# What root needs, and what keeps it from calling home.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PASSWORD = "a long enough password"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For the tests of one module, which all do without an event loop of their own: while Playwright's runs
    on this thread, no other one can, and the next module's tests may want one."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    # Its loop runs on this thread, where Django then takes every query for one of an event loop.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
            yield launched
            launched.close()
    finally:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def root(transactional_db: None) -> Any:
    from django.contrib.auth.models import User

    return User.objects.create_superuser("root", password=PASSWORD)


@pytest.fixture
def ann(transactional_db: None) -> Any:
    user = services.user_ensure(username="ann")
    user.set_password(PASSWORD)
    user.save()
    return user


def log_in(page: Any, name: str, password: str = PASSWORD) -> None:
    """On the page that asks who one is."""
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in", exact=True).click()


def is_complaint(said: Any) -> bool:
    """What a page should not say. That /v1 answered with an error is a browser's word, not the page's."""
    return bool(said.type == "error" and "/v1/" not in said.location["url"])


@pytest.fixture
def watched(browser: Any, live_server: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages that note what they should not have: errors in the console, requests to other hosts."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(*, size: dict[str, int] = DESKTOP, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport=size, color_scheme=scheme, base_url=live_server.url, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                complaints.append(f"another host: {asked.url}")
                if not asked.url.startswith((live_server.url, "data:", "blob:"))
                else None
            ),
        )
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def shot(request: Any) -> Callable[[Any, str], None]:
    """Keeps a picture of a page where SKIPPY_SCREENSHOTS names a folder, for people to look at."""
    folder = os.environ.get("SKIPPY_SCREENSHOTS")

    def taken(page: Any, name: str) -> None:
        if folder:
            page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)

    return taken


def serious_faults(page: Any, *, only_colours: bool = False) -> list[str]:
    """What axe calls serious or critical of the page that is shown; or of its contrasts alone, once it was
    looked at and is shown in other colours."""
    from axe_playwright_python.sync_playwright import Axe

    if only_colours:  # it is in the page already
        found = page.evaluate("axe.run(document, {runOnly: ['color-contrast', 'link-in-text-block']})")[
            "violations"
        ]
    else:
        found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
