"""Every page of the console, as each kind of caller: what it shows, and nothing of what is another's."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts import services
from accounts.models import ApiKey
from inference.dashboards.overview import PARTS
from inference.models import GenerationText, ModelPrice
from tests.integration.console.conftest import signed_in
from tests.integration.usage.records import record, save

pytestmark = pytest.mark.django_db(transaction=True)
USAGE, LOG = reverse("console:usage"), reverse("console:requests")


def pages(record_id) -> list[str]:
    named = [reverse(f"console:{name}", args=[kind]) for name in ("parts", "parts_csv") for kind in PARTS]
    return [
        USAGE,
        f"{USAGE}?range=30d",
        reverse("console:usage_csv"),
        LOG,
        reverse("console:requests_csv"),
        reverse("console:request", args=[record_id]),
        reverse("console:start"),
        *named,
    ]


def body(response) -> str:
    if not response.streaming:
        return response.content.decode()

    async def gathered() -> bytes:
        return b"".join([part async for part in response.streaming_content])

    return async_to_sync(gathered)().decode()


class TestWho:
    def test_nobody_gets_in_without_signing_in(self, client, ann, used) -> None:
        (row,) = used(ann)
        for url in pages(row.pk):
            response = client.get(url)
            assert (response.status_code, response.url.partition("?")[0]) == (302, reverse("account_login"))

    def test_a_key_owner_and_staff_without_the_right_see_nothing_of_others(
        self, as_ann, staff, bob, used
    ) -> None:
        (row,) = used(bob)
        for client in (as_ann, staff(), staff("view_apikey", "view_user", "change_modelrow", name="other")):
            for url in [*pages(row.pk), f"{LOG}?key={row.key_id}", f"{USAGE}?key={row.key_id}"]:
                response = client.get(url)
                text = body(response)
                assert "bob" not in text, url
                assert row.request_id not in text
                if str(row.pk) in url or "/teams" in url or "/users" in url:
                    assert response.status_code == 404
            for query in (f"user={bob.pk}", "user=999999", "team=1"):
                assert client.get(f"{USAGE}?{query}").status_code == 403
                assert client.get(f"{LOG}?{query}").status_code == 403

    def test_a_key_owner_sees_his_own(self, as_ann, ann, bob, used) -> None:
        (row,) = used(ann)
        used(bob, 5)
        assert ">1</strong>" in body(as_ann.get(USAGE))
        assert row.request_id in body(as_ann.get(reverse("console:request", args=[row.pk])))
        assert "key of ann" in body(as_ann.get(LOG))
        assert as_ann.get(f"{USAGE}?user={ann.pk}").status_code == 200

    def test_an_operator_sees_everybody_s(self, operator, ann, bob, used) -> None:
        rows = used(ann) + used(bob, 2)
        text = body(operator.get(USAGE))
        assert ">3</strong>" in text
        assert "model-of-ann" in text
        assert "model-of-bob" in text
        for row in rows:
            assert row.request_id in body(operator.get(reverse("console:request", args=[row.pk])))
        assert "bob" not in body(operator.get(f"{LOG}?user={ann.pk}"))

    def test_texts_are_for_their_owner_and_who_may_read_them(
        self, operator, staff, as_ann, ann, used
    ) -> None:
        (row,) = used(ann)
        now = timezone.now()
        text = GenerationText.objects.create(
            record_id=row.pk,
            created_at=now,
            expires_at=now + timedelta(days=1),
            user_id=ann.pk,
            key_id=row.key_id,
            request="<b>the question</b>",
            answer="it was said",
        )
        url = reverse("console:request", args=[row.pk])
        reader = staff("view_generationrecord", "view_generationtext", name="reader")
        assert "&lt;b&gt;the question&lt;/b&gt;" in body(as_ann.get(url))
        assert "it was said" in body(reader.get(url))
        assert "it was said" not in body(operator.get(url))
        assert "you may not read it" in body(operator.get(url))
        assert "it was said" not in body(staff("view_generationtext", name="no records").get(url))
        text.expires_at = now - timedelta(days=1)
        text.save()
        assert "it was said" not in body(as_ann.get(url))
        text.delete()

    def test_only_get(self, operator, ann, used) -> None:
        (row,) = used(ann)
        for url in pages(row.pk):
            assert operator.post(url).status_code == 405
            assert operator.head(url).status_code == 200


class TestHeaders:
    def test_pages_are_not_kept_and_run_nothing_that_stands_in_them(
        self, operator, client, ann, used
    ) -> None:
        (row,) = used(ann)
        answers = [operator.get(url) for url in pages(row.pk)] + [client.get(reverse("account_login"))]
        for response in answers:
            assert "no-store" in response["Cache-Control"]
            policy = response["Content-Security-Policy"]
            assert "unsafe" not in policy
            assert "default-src 'none'" in policy
            if response["Content-Type"].startswith("text/html"):
                text = body(response)
                assert not re.search(r"<script(?![^>]*(src=|application/json))", text)
                assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text)
                assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", text)

    def test_the_admin_may_evaluate_and_nothing_else(self, admin_client) -> None:
        policy = admin_client.get("/admin/")["Content-Security-Policy"]
        directives = dict(one.strip().split(" ", 1) for one in policy.split(";"))
        assert directives["script-src"] == "'self' 'unsafe-eval'"
        assert directives["default-src"] == "'none'"
        assert "no-store" in admin_client.get(reverse("admin:accounts_apikey_add"))["Cache-Control"]


class TestErrors:
    def test_they_are_pages_of_the_design(self, operator, as_ann, client, settings) -> None:
        for response, status, told in (
            (operator.get("/console/nothing/"), 404, "There is no such page"),
            (client.get("/nothing"), 404, "There is no such page"),
            (as_ann.get(f"{USAGE}?team=1"), 403, "You may see your own usage only."),
            (client.get("/console/", headers={"host": "elsewhere.example"}), 400, "cannot be read"),
        ):
            assert response.status_code == status
            assert told in body(response)
            assert "skippy/console.css" in body(response)
        strict = Client(enforce_csrf_checks=True)
        refused = strict.post(reverse("account_login"), {"username": "ann", "password": "x"})
        assert (refused.status_code, "become old" in body(refused)) == (403, True)

    def test_a_database_that_is_away_is_told_and_may_be_tried_again(self, operator, ann, used) -> None:
        (row,) = used(ann)
        operator.raise_request_exception = False

        def away(*_: object) -> None:
            raise OperationalError("the connection is lost")

        for url in (*pages(row.pk), "/admin/", reverse("admin:accounts_apikey_changelist")):
            with connection.execute_wrapper(away):
                answer = operator.get(url)
            assert (answer.status_code, answer["Retry-After"]) == (503, "5"), url
            assert "The database cannot be reached" in body(answer)
            assert "the connection is lost" not in body(answer)

    def test_also_where_nothing_of_the_request_is_known(self) -> None:
        assert "went wrong on our side" in render_to_string("500.html")


def test_what_pages_load_is_served(client) -> None:
    page = body(client.get(reverse("account_login")))
    found = set(re.findall(r"""(?:src|href)=["'](/static/[^"']+)""", page))
    more = (
        "uplot/uPlot-1.6.32.iife.min.js",
        "uplot/uPlot-1.6.32.min.css",
        "skippy/charts.js",
        "skippy/copy.js",
    )
    found |= {static(name) for name in more}
    assert len(found) >= 10
    for address in found:
        response = client.get(address)
        assert response.status_code == 200, address
        assert int(response["Content-Length"]) > 0
    assert client.get("/favicon.ico").url in found


class TestSigningIn:
    def test_everybody_with_a_password_and_out_again(self, client) -> None:
        User.objects.create_user("ann", password="a password of hers")
        login = reverse("account_login")
        assert client.get("/").url == USAGE
        assert client.get(USAGE).url == f"{login}?next={USAGE}"
        refused = client.post(login, {"username": "ann", "password": "another"})
        assert "The user name or the password is not right." in body(refused)
        given = {"username": "ann", "password": "a password of hers", "next": LOG}
        assert client.post(login, given).url == LOG
        assert client.get(login).url == USAGE
        assert client.post(reverse("account_logout")).url == login
        assert client.get(USAGE).status_code == 302

    def test_not_to_another_site(self, client) -> None:
        User.objects.create_user("ann", password="a password of hers")
        given = {"username": "ann", "password": "a password of hers", "next": "https://evil.example/"}
        assert client.post(reverse("account_login"), given).url == USAGE


class TestUsage:
    def test_before_the_first_request_it_says_how_to_make_it(self, as_ann, operator) -> None:
        for client in (as_ann, operator):
            text = body(client.get(USAGE))
            assert "http://testserver/v1/chat/completions" in text
            assert "from openai import OpenAI" in text
        assert "No requests in this period" in body(operator.get(f"{USAGE}?range=today"))

    def test_spend_is_shown_where_there_are_prices(self, operator, ann, used) -> None:
        used(ann, 2, num_input_tokens=1_000_000, num_cached_tokens=0, num_output_tokens=1_000_000)
        assert "Spend" not in body(operator.get(USAGE))
        ModelPrice.objects.create(
            model="model-of-ann", starts_on="2020-01-01", input_price=1, output_price="2.5"
        )
        assert ">7.00</strong>" in body(operator.get(USAGE))
        ModelPrice.objects.update(model="another")
        assert "Without a price" in body(operator.get(USAGE))

    @pytest.mark.parametrize(
        "query",
        [
            "range=custom&from=2026-10-20&to=2026-10-30&zone=Europe/Berlin",
            "range=custom&from=0001-01-01&to=0001-01-02",
            "range=custom&from=9999-12-30&to=9999-12-31",
            "range=custom&from=2020-01-01&to=2025-12-31",
            "range=custom&from=x&to=%00",
            "range=custom",
            "range=%00&zone=%00&model=%00&key=x&user=-1&team=99999999999999999999&reason=" + "x" * 300,
            "range=today&zone=Pacific/Apia",
            "range=month&zone=Asia/Kathmandu",
            "zone=../../etc/passwd",
            "zone=localtime",
            "key=%D9%A1",
            "model=%ED%A0%BD",
            "after=99999999999999999",
            "after=x&model=y",
            "after=1-00000000000000000000000000000000",
        ],
    )
    def test_odd_addresses_are_answered(self, operator, ann, used, query) -> None:
        used(ann)
        for url in (USAGE, LOG, reverse("console:usage_csv"), reverse("console:parts", args=["keys"])):
            assert operator.get(f"{url}?{query}").status_code == 200

    def test_what_was_not_understood_is_told(self, operator, ann, used) -> None:
        used(ann)
        text = body(operator.get(f"{USAGE}?range=custom&from=2026-02-01&to=2026-01-01&key=x&zone=Mars"))
        for told in ("Give two days", "There is no key “x”", "no such time zone"):
            assert told in text
        for name in ("range", "key", "zone"):
            assert re.search(f'name="{name}"[^>]* aria-describedby="problem-{name}"', text)
            assert f'id="problem-{name}"' in text

    def test_whose_is_asked_by_name(self, operator, as_ann, ann, bob, used) -> None:
        (row,) = used(ann)
        used(bob, 2)
        team = services.team_create(name="research")
        services.user_team_set(user=ann, team=team)
        used(ann, 3, team_id=team.pk, team_name=team.name)
        key = ApiKey.objects.get(pk=row.key_id)
        for query, num_requests in (
            ({"user": "bob"}, 2),
            ({"team": "research"}, 3),
            ({"key": key.masked}, 1),
            ({"key": key.visible_prefix}, 1),
            ({"user": "bob", "key": "key of bob"}, 2),
        ):
            text = body(operator.get(USAGE, query))
            assert f">{num_requests}</strong>" in text, query
            assert (
                f'value="{query.get("key") or query.get("user") or query["team"]}' in text or "key" in query
            )
        assert "More than one key is called" in body(operator.get(USAGE, {"key": "key of ann"}))
        assert "There is no user “nobody”" in body(operator.get(USAGE, {"user": "nobody"}))
        for query in ({"user": "bob"}, {"user": "nobody"}, {"team": "research"}, {"team": "nothing"}):
            assert as_ann.get(USAGE, query).status_code == 403
        assert "There is no key" in body(as_ann.get(USAGE, {"key": "key of bob"}))
        assert ">1</strong>" in body(as_ann.get(USAGE, {"key": key.masked, "user": "ann"}))

    def test_a_key_that_was_pasted_is_not_repeated(self, operator, ann, used) -> None:
        used(ann)
        _, minted = services.api_key_create(user=ann, name="pasted")
        assert minted.plaintext not in body(operator.get(USAGE, {"key": minted.plaintext}))

    def test_the_browser_s_zone_is_the_default(self, operator, ann, used) -> None:
        used(ann)
        operator.cookies["skippy_zone"] = "Asia/Tokyo"
        assert 'value="Asia/Tokyo" autocomplete' in body(operator.get(USAGE))
        operator.cookies["skippy_zone"] = "<script>"
        assert 'value="UTC" autocomplete' in body(operator.get(USAGE))

    def test_names_are_text(self, operator, ann, used) -> None:
        used(ann, model="<script>alert(1)</script>", key_name="</script><b>")
        for url in (USAGE, LOG, reverse("console:parts", args=["models"])):
            text = body(operator.get(url))
            assert "<script>alert" not in text
            assert "<b>" not in text

    def test_parts_are_sorted_by_what_one_asks(self, operator, ann, bob, used) -> None:
        used(ann, 3, num_output_tokens=1)
        used(bob, 1, num_output_tokens=1000, outcome="backend_error")
        for sort, first in (("", "ann"), ("output", "bob"), ("not completed", "bob"), ("nonsense", "ann")):
            text = body(operator.get(reverse("console:parts", args=["users"]), {"sort": sort}))
            assert re.findall(r">(ann|bob)</a>", text)[0] == first

    def test_few_queries_whatever_there_is(self, operator, ann, bob, used) -> None:
        used(ann)
        counts = []
        for num_more in (0, 30):
            for number in range(num_more):
                used(services.user_ensure(username=f"user-{number}"), model=f"m{number}")
            found = []
            for url in (USAGE, LOG, reverse("console:parts", args=["users"])):
                with CaptureQueriesContext(connection) as captured:
                    assert operator.get(f"{url}?range=7d").status_code == 200
                found.append(sum(one["sql"].startswith(("SELECT", "WITH")) for one in captured))
            counts.append(found)
        assert counts[0] == counts[1]
        assert max(counts[0]) <= 15


class TestLog:
    def test_pages_go_on_until_the_end(self, operator, ann, used) -> None:
        rows = used(ann, 120)
        seen, url = [], f"{LOG}?range=7d"
        while url:
            text = body(operator.get(url))
            seen += re.findall(r"/console/requests/([0-9a-f-]{36})/", text)
            found = re.search(r'rel="next" href="([^"]+)"', text)
            url = found[1].replace("&amp;", "&") if found else ""
        assert len(seen) == len(set(seen)) == 120
        assert set(seen) == {str(row.pk) for row in rows}

    def test_filters(self, operator, ann, bob, used) -> None:
        used(ann)
        used(bob, outcome="backend_error", error_code="generation_failed", status=502)
        for query, names in (
            ("outcome=backend_error", {"bob"}),
            ("error_code=generation_failed", {"bob"}),
            ("model=model-of-ann", {"ann"}),
            ("request_id=request-ann-0", {"ann"}),
            ("request_id=request-nobody", set()),
            ("endpoint=chat.completions", {"ann", "bob"}),
        ):
            text = body(operator.get(f"{LOG}?{query}"))
            assert set(re.findall(r'<td class="name">(ann|bob)</td>', text)) == names, query

    def test_spend_of_each_request_is_that_of_its_day(self, operator, ann, used) -> None:
        (row,) = used(ann, num_input_tokens=2_000_000, num_cached_tokens=1_000_000, num_output_tokens=500_000)
        story = reverse("console:request", args=[row.pk])
        assert "Spend" not in body(operator.get(LOG)) + body(operator.get(story))
        for day, factor in (("2020-01-01", 1), ("2021-01-01", 3), ("2200-01-01", 9)):
            ModelPrice.objects.create(
                model=row.model,
                starts_on=day,
                input_price=factor,
                cached_price="0.1",
                output_price=2 * factor,
            )
        for url in (LOG, story):
            assert "6.10" in body(operator.get(url))

    def test_a_story_tells_hooks_and_phases(self, operator, ann, used) -> None:
        decision = {
            "policy": "no secrets",
            "point": "before",
            "actions": ["deny"],
            "result": "done",
            "reason": "a word",
            "elapsed_ms": 1.5,
        }
        (row,) = used(ann, hook_decisions=[decision], metadata={"ticket": "<7>"})
        text = body(operator.get(reverse("console:request", args=[row.pk])))
        for told in ("no secrets", "deny", "waiting for a lane", "the answer", "&lt;7&gt;"):
            assert told in text


class TestCsv:
    def test_a_formula_is_text(self, operator, ann, used) -> None:
        used(ann, model="=1+1", key_name="@SUM(1)")
        for url in (reverse("console:requests_csv"), reverse("console:parts_csv", args=["models"])):
            rows = list(csv.reader(io.StringIO(body(operator.get(url)))))
            assert len(rows) == 2
            assert "'=1+1" in rows[1]

    def test_days_are_those_of_the_zone_and_add_up(self, operator, ann) -> None:
        at = datetime(2026, 10, 24, 12, tzinfo=UTC)
        save(*(record(created_at=at + number * timedelta(hours=1)) for number in range(60)))
        query = "range=custom&from=2026-10-24&to=2026-10-26&zone=Europe/Berlin"
        # Three days are cut into hours, seven into days.
        hours = list(
            csv.DictReader(io.StringIO(body(operator.get(f"{reverse('console:usage_csv')}?{query}"))))
        )
        assert len(hours) == 24 + 25 + 24
        query = "range=custom&from=2026-10-22&to=2026-10-28&zone=Europe/Berlin"
        days = list(
            csv.DictReader(io.StringIO(body(operator.get(f"{reverse('console:usage_csv')}?{query}"))))
        )
        told = {row["start"][:10]: int(row["requests"]) for row in days}
        assert told == {
            "2026-10-22": 0,
            "2026-10-23": 0,
            "2026-10-24": 10,
            "2026-10-25": 25,
            "2026-10-26": 24,
            "2026-10-27": 1,
            "2026-10-28": 0,
        }
        assert sum(int(row["requests"]) for row in hours) == 10 + 25 + 24

    def test_the_whole_log(self, operator, as_ann, ann, bob, used) -> None:
        used(ann, 3)
        used(bob, 700)
        rows = list(csv.DictReader(io.StringIO(body(operator.get(reverse("console:requests_csv"))))))
        assert len(rows) == 703
        own = list(csv.DictReader(io.StringIO(body(as_ann.get(reverse("console:requests_csv"))))))
        assert {row["user"] for row in own} == {"ann"}


def test_navigation_leads_where_one_may_go(as_ann, operator, admin_client) -> None:
    def places(client) -> set[str]:
        text = body(client.get(reverse("console:start")))
        return set(re.findall(r"</span>([A-Z][a-z ]+)</a>", text))

    own = {"Usage", "Requests", "My keys", "Playground", "First request", "Your account"}
    assert places(as_ann) == own
    assert places(operator) == own | {"Live", "Decisions"}
    assert own < places(admin_client) >= {"Keys", "Users", "Teams", "Models", "Alerts", "History"}
    assert "Keys" in places(signed_in(User.objects.create_superuser("root", password="x")))


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label_lower)
def test_lists_of_the_admin_take_few_queries(admin_client, model) -> None:
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    with CaptureQueriesContext(connection) as captured:
        assert admin_client.get(address).status_code == 200
    assert len(captured) <= 15
    assert not any("count(*)" in one["sql"].lower() and "generationrecord" in one["sql"] for one in captured)


async def test_pages_files_and_downloads_under_asgi(async_client) -> None:
    root = await User.objects.acreate_superuser("root", password="x")
    await async_client.aforce_login(root)
    page = await async_client.get(f"{USAGE}?range=today")
    assert (page.status_code, "unsafe" in page["Content-Security-Policy"]) == (200, False)
    served = await async_client.get(static("skippy/console.css"))
    assert b"".join([part async for part in served.streaming_content]).startswith(b"/* The pages")
    log = await async_client.get(reverse("console:requests_csv"))
    assert b"".join([part async for part in log.streaming_content]).startswith(b"user_id,user,key_id")
