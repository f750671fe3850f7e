import asyncio

from inference.domain.errors import ServiceUnavailable
from inference.domain.usage import UsageTotals
from inference.openai.usage_report import CSV_COLUMNS
from inference.usage.selectors import UsageOwner
from tests.asgi import exchange

ROW = (None,) * len(CSV_COLUMNS)
AWAY = ServiceUnavailable("Usage cannot be read right now.")


async def test_a_key_sees_its_own_numbers(site):
    site.usage.totals = UsageTotals(2, 20, 8, 10, 0, 0)

    answer = await site.get("/v1/usage")

    assert answer.status == 200
    assert answer.json()["total_tokens"] == 30
    assert answer.headers["cache-control"] == "no-store"
    assert site.usage.asked[0][0] == UsageOwner(key_id=7)


async def test_without_a_key_there_is_nothing_to_see(site):
    answer = await exchange(site.app, "GET", "/v1/usage")

    assert answer.status == 401
    assert not site.usage.asked


async def test_another_key_cannot_be_asked_about(site):
    answer = await site.get("/v1/usage?key_id=8")

    assert (answer.status, answer.json()["error"]["param"]) == (400, "key_id")


async def test_a_wrong_parameter_is_named(site):
    answer = await site.get("/v1/usage?time_zone=Mars")

    assert (answer.status, answer.json()["error"]["param"]) == (400, "time_zone")


async def test_a_database_that_is_away_is_a_503(site):
    site.usage.failure = AWAY

    for path in ("/v1/usage", "/v1/usage?format=csv"):
        answer = await site.get(path)
        assert answer.status == 503
        assert answer.json()["error"]["code"] == "service_unavailable"


async def test_csv_comes_page_by_page(site):
    site.usage.rows = [[ROW] * 2, [ROW], [ROW] * 3]

    answer = await site.get("/v1/usage?format=csv")

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert len(answer.body.splitlines()) == 7
    assert len(answer.frames) == 4
    assert answer.is_complete


async def test_no_requests_are_a_csv_of_its_header(site):
    answer = await site.get("/v1/usage?format=csv")

    assert answer.body.startswith(b"created_at,")
    assert len(answer.body.splitlines()) == 1


async def test_a_csv_that_cannot_go_on_breaks_off_and_never_ends_in_good_order(site):
    site.usage.rows, site.usage.failure = [[ROW]], AWAY
    aborted: list[bool] = []

    class Connection:
        def abort(self) -> None:
            aborted.append(True)

    messages = []

    async def send(message) -> None:
        messages.append(message)

    incoming = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/usage",
        "query_string": b"format=csv",
        "headers": [(name.encode(), str(value).encode()) for name, value in site.headers().items()],
        "client": ("192.0.2.1", 5),
        "extensions": {"skippy.connection": Connection()},
    }
    await site.app(scope, incoming.get, send)

    assert aborted == [True]
    assert all(message.get("more_body", True) for message in messages[1:])


async def test_post_is_not_a_way_to_ask(site):
    assert (await site.post("/v1/usage", b"{}")).status == 405
