import asyncio

import pytest
from django.db import connection

from inference.domain.errors import ServiceUnavailable
from inference.domain.usage import UsageRange
from inference.usage.desk import DatabaseUsageDesk
from inference.usage.selectors import UsageOwner
from tests.integration.usage.records import record, save

pytestmark = pytest.mark.django_db(transaction=True)


async def test_many_may_ask_at_once():
    await asyncio.to_thread(_save_and_close, 700)
    desk = DatabaseUsageDesk(max_readers=2)

    found = await asyncio.gather(*(desk.report(UsageOwner(key_id=1), UsageRange()) for _ in range(12)))
    pages = [page async for page in desk.pages(UsageOwner(key_id=1), UsageRange(), ["id"])]

    assert {report.totals.num_requests for report, _ in found} == {700}
    assert [len(page) for page in pages] == [500, 200]


async def test_what_the_database_refuses_is_a_503():
    desk, refused = DatabaseUsageDesk(), UsageOwner(key_id="x")

    with pytest.raises(ServiceUnavailable):
        await desk.report(refused, UsageRange())


def _save_and_close(count: int) -> None:
    try:
        save(*(record() for _ in range(count)))
    finally:
        connection.close()
