"""Each role walks from page to page by what is linked: no link leads nowhere, and no button to a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from accounts.roles import Role
from tests.integration.console.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
MAX_PAGES = 90
# Of one kind of page (a view and the names of its parameters) so many are walked.
MAX_OF_A_KIND = 2
_LINK = re.compile(r"""<a\b[^>]*?\shref=["']([^"']+)["']""")
_FORM = re.compile(r"""<form\b([^>]*)>(.*?)</form>""", re.DOTALL)
_SUBMITS = re.compile(r"""<button\b(?![^>]*type=["']button)|type=["']submit["']""")
_HIDDEN = re.compile(r"""<input\b(?=[^>]*type=["']hidden["'])(?=[^>]*name=["']([^"']+)["'])[^>]*>""")
# They end the session, or what they would change is the walker's own way in.
LEFT_ALONE = ("/console/logout/", "/admin/logout/", "/console/account/", "/accounts/")


def kind_of(address: str) -> tuple[str, ...]:
    parts = urlsplit(address)
    path = re.sub(r"[0-9a-f-]{36}|\d+", "#", parts.path)
    return (path, *sorted(name for name, _ in parse_qsl(parts.query)))


def walked(client: Client, start: str) -> Iterator[tuple[str, str, str]]:
    """Pages by their links, breadth first: address, where it was found, and its HTML."""
    seen: dict[tuple[str, ...], int] = {}
    waiting, known = [(start, "")], {start}
    num_walked = 0
    while waiting and num_walked < MAX_PAGES:
        address, origin = waiting.pop(0)
        kind = kind_of(address)
        if seen.get(kind, 0) >= MAX_OF_A_KIND:
            continue
        seen[kind] = seen.get(kind, 0) + 1
        num_walked += 1
        answer = client.get(address, follow=True)
        assert answer.status_code == 200, f"{address} on {origin}: {answer.status_code}"
        if not answer["Content-Type"].startswith("text/html"):
            continue
        text = answer.content.decode()
        yield address, origin, text
        for link in map(unescape, _LINK.findall(text)):
            target = urljoin(address, link).partition("#")[0]
            if target.startswith("/") and target not in known and not target.startswith(LEFT_ALONE):
                known.add(target)
                waiting.append((target, address))


@pytest.mark.parametrize("role", Role, ids=lambda role: role.value)
def test_every_link_and_button_of_a_role_is_open_to_it(filled, role) -> None:
    client = signed_in(filled.users[role.value])
    forms: dict[tuple[str, ...], tuple[str, dict[str, str]]] = {}
    num_pages = 0
    for address, _, text in walked(client, reverse("console:usage")):
        num_pages += 1
        for attributes, inside in _FORM.findall(text):
            action = re.search(r"""\saction=["']([^"']*)["']""", attributes)
            target = urljoin(address, unescape(action[1]) if action else "")
            if re.search(r"""method=["']post["']""", attributes, re.IGNORECASE) and _SUBMITS.search(inside):
                fields = dict.fromkeys(_HIDDEN.findall(inside), "")
                forms.setdefault(kind_of(target), (target, fields))
    assert num_pages > (20 if role.is_staff else 5)
    # Empty forms: refused for what they lack, never for who sends them. Those that end something come last.
    for target, fields in sorted(
        forms.values(), key=lambda one: "/delete/" in one[0] or "/revoke/" in one[0]
    ):
        if not target.startswith(LEFT_ALONE):
            assert client.post(target, fields).status_code in (200, 302, 400), target
