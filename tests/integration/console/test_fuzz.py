"""Whatever stands in an address, and whatever is linked: an answer below 500 from every page of console and
admin, and no way that leads nowhere."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from accounts.sign_in import urls as sign_in
from inference.dashboards import urls
from inference.dashboards.overview import PARTS
from tests.filled_console import FilledConsole
from tests.integration.console.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)

# What people, scripts and scanners write where a value is expected.
ODD = (
    "", "\0", "a\0b", "-1", "0", "1e9", "٣", "9" * 19, "9" * 25, "0" * 30 + "9" * 30, "0" * 25 + "9" * 5000,
    "x" * 5000, "' OR 1=1 --", "<script>", "%", "../../etc/passwd", "2026-02-30", "0001-01-01", "9999-12-31",
    "10000-01-01", "\ud800", "é\u202e", "[]", "{}", "null", "1,2", "True", "__class__", "{{ 7 }}",
    "sk-skippy-…x", "…", "/usr/share/zoneinfo/UTC", "localtime", "99999999999999999-" + "0" * 32,
)  # fmt: skip
CONSOLE = (
    "range", "from", "to", "zone", "model", "endpoint", "outcome", "reason", "error_code", "request_id",
    "team", "user", "key", "after", "sort", "policy", "point", "result", "action", "next", "code", "state",
)  # fmt: skip
ADMIN = ("q", "p", "o", "all", "e", "_changelist_filters", "_to_field", "_popup", "state", "id__exact")
BELOW_500 = range(200, 500)


@pytest.fixture
def as_root() -> Client:
    client = signed_in(User.objects.create_superuser("root", password="x"))
    client.raise_request_exception = False
    return client


def console_pages(filled: FilledConsole) -> list[str]:
    """All that there are; those that are only sent to answer 405."""
    given = {"record_id": filled.records[0].pk, "key_id": filled.keys[0].pk, "token": "x" * 43}
    pages = []
    for pattern in urls.urlpatterns:
        names = pattern.pattern.converters
        for kind in PARTS if "kind" in names else ("",):
            wanted = {name: given.get(name, kind) for name in names}
            pages.append(reverse(f"console:{pattern.name}", kwargs=wanted))
    signing_in = [reverse(pattern.name) for pattern in sign_in.urlpatterns]
    return [*pages, *(page for page in signing_in if page != reverse("account_logout"))]


def written(given: dict[str, str]) -> str:
    return "?" + urlencode(given, errors="surrogatepass")


def refused(client: Client, addresses: list[str]) -> list[tuple[str, int]]:
    answers = [(url, client.get(url).status_code) for url in addresses]
    return [(url[:200], status) for url, status in answers if status not in BELOW_500]


def test_no_value_of_a_parameter_is_a_fault_of_the_console(as_root, filled) -> None:
    pages = console_pages(filled)
    # All at once, since what is not understood is passed over; and one alone, where others would hide it.
    addresses = [
        page + written(dict.fromkeys(CONSOLE, value))
        for number, page in enumerate(pages)
        for value in ODD[number % 12 :: 12]
    ]
    most = [reverse(f"console:{name}") for name in ("usage", "requests", "decisions")]
    addresses += [most[place % 3] + written(dict.fromkeys(CONSOLE, value)) for place, value in enumerate(ODD)]
    days = {"range": "custom", "from": "2026-11-01", "to": "2026-11-30"}
    for number, name in enumerate(CONSOLE):
        addresses += [most[number % 3] + written({**days, name: value}) for value in ODD[number % 12 :: 12]]
    assert refused(as_root, addresses) == []


def test_no_value_of_a_parameter_is_a_fault_of_the_admin(as_root, filled) -> None:
    addresses = []
    for number, (model, its_admin) in enumerate(admin.site._registry.items()):
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        page = reverse(f"admin:{name}_changelist")
        filters = [
            f"{one}__exact" if isinstance(one, str) else one.parameter_name for one in its_admin.list_filter
        ]
        own = reverse(f"admin:{name}_change", args=[filled.things[name]])
        names = (*ADMIN, *filters)
        for place, value in list(enumerate(ODD))[number % 3 :: 3]:
            parameter = "q" if place % 2 else names[(place + number) % len(names)]
            addresses.append(page + written({parameter: value}))
        for value in ODD[number % 8 :: 8]:
            addresses.append(
                f"{page}add/" + written({field.name: value for field in model._meta.get_fields()})
            )
            addresses.append(own + written(dict.fromkeys(ADMIN, value)))
        addresses += [f"{page}{value}/change/" for value in ODD[number % 3 :: 3] if value.isalnum()]
    asked = {"app_label": "accounts", "model_name": "apikey", "field_name": "user"}
    for number, value in enumerate(ODD):
        addresses += (
            reverse("admin:hooks_hookpolicy_try") + written({"policy": value}),
            reverse("admin:search") + written({"s": value}),
            reverse("admin:autocomplete") + written({**asked, "term": value, "page": value}),
            reverse("admin:autocomplete") + written(dict.fromkeys(asked, value)),
        )[number % 4 :: 4]
    assert refused(as_root, addresses) == []
