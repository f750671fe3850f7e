"""Look-ups against the real database: states, queries, age, outages, connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from channels.db import database_sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import keys, services
from accounts.contracts import AccountsUnavailable, KeyLookup, KeyState, Principal
from accounts.key_cache import KeyCache
from accounts.models import ApiKey
from accounts.selectors import (
    KeyAmbiguous,
    KeyNotFound,
    api_key_cache,
    api_key_facts_read,
    api_key_find,
    api_key_lookup,
    api_keys_for_listing,
)
from tests.clocks import FakeClock

# Look-ups run on threads with connections of their own: they see committed rows only.
pytestmark = pytest.mark.django_db(transaction=True)

in_database = database_sync_to_async


def num_backends() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]


@contextmanager
def second_connection() -> Iterator[psycopg.Connection]:
    """A session that Django knows nothing of, as another process would have one."""
    settings = connection.get_connection_params()
    names = {"dbname", "user", "password", "host", "port"}
    with psycopg.connect(**{name: value for name, value in settings.items() if name in names}) as other:
        yield other


class TestStates:
    async def test_a_good_key_names_its_principal(self, ann, key) -> None:
        row, minted = key
        assert await api_key_lookup(plaintext=minted.plaintext) == KeyLookup(
            KeyState.VALID, Principal(user_id=ann.pk, username="ann", key_id=row.pk, key_name="laptop")
        )

    async def test_an_invented_key_is_unknown(self, key) -> None:
        assert await api_key_lookup(plaintext=keys.mint().plaintext) == KeyLookup(KeyState.UNKNOWN)

    @pytest.mark.parametrize("text", ["", "x", "sk-skippy-" + "0" * 49, "\ud83d", "a\x00b", "k" * 100_000])
    async def test_what_is_no_key_is_unknown_without_a_query(self, text) -> None:
        before = api_key_cache.statistics().num_queries
        assert await api_key_lookup(plaintext=text) == KeyLookup(KeyState.UNKNOWN)
        assert api_key_cache.statistics().num_queries == before

    async def test_a_revoked_key(self, key) -> None:
        await in_database(services.api_key_revoke)(key=key[0])
        assert await api_key_lookup(plaintext=key[1].plaintext) == KeyLookup(KeyState.REVOKED)

    async def test_a_key_of_a_user_who_was_switched_off(self, ann, key) -> None:
        ann.is_active = False
        await ann.asave()
        assert await api_key_lookup(plaintext=key[1].plaintext) == KeyLookup(KeyState.USER_INACTIVE)

    async def test_an_expiry_is_exact_though_the_facts_are_remembered(self, ann) -> None:
        end = timezone.now() + timedelta(seconds=0.3)
        _, minted = await in_database(services.api_key_create)(user=ann, name="short", expires_at=end)
        assert (await api_key_lookup(plaintext=minted.plaintext)).state is KeyState.VALID
        queries = api_key_cache.statistics().num_queries
        await asyncio.sleep((end - timezone.now()).total_seconds() + 0.01)
        assert (await api_key_lookup(plaintext=minted.plaintext)).state is KeyState.EXPIRED
        assert api_key_cache.statistics().num_queries == queries


class TestQueries:
    @pytest.mark.parametrize("outcome", ["valid", "revoked", "expired", "unknown"])
    def test_every_outcome_is_one_query_by_the_unique_index(self, ann, key, outcome) -> None:
        row, minted = key
        digest = minted.digest if outcome != "unknown" else keys.mint().digest
        now = timezone.now()
        if outcome == "revoked":
            services.api_key_revoke(key=row)
        if outcome == "expired":
            ApiKey.objects.filter(pk=row.pk).update(created_at=now - timedelta(2), expires_at=now)
        with CaptureQueriesContext(connection) as captured:
            facts = api_key_facts_read(digest)
        assert (facts is None) == (outcome == "unknown")
        assert len(captured) == 1
        sql = captured[0]["sql"]
        assert "password" not in sql
        with connection.cursor() as cursor:
            cursor.execute("SET enable_seqscan = off")
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            cursor.execute("RESET enable_seqscan")
        assert "apikey_digest_unique" in plan
        assert "Seq Scan on accounts_apikey" not in plan

    async def test_fifty_requests_at_once_with_one_key_are_one_query(self, key) -> None:
        before = api_key_cache.statistics().num_queries
        looked_up = await asyncio.gather(*(api_key_lookup(plaintext=key[1].plaintext) for _ in range(50)))
        assert {answer.state for answer in looked_up} == {KeyState.VALID}
        assert api_key_cache.statistics().num_queries == before + 1

    async def test_look_ups_leave_no_connection_behind(self, ann) -> None:
        minted = [
            (await in_database(services.api_key_create)(user=ann, name=f"key {number}"))[1]
            for number in range(40)
        ]
        await asyncio.gather(*(api_key_lookup(plaintext=one.plaintext) for one in minted))
        before = await in_database(num_backends)()
        for _ in range(3):
            api_key_cache.forget_all()
            answers = await asyncio.gather(*(api_key_lookup(plaintext=one.plaintext) for one in minted))
            assert all(answer.state is KeyState.VALID for answer in answers)
        assert await in_database(num_backends)() <= before
        pool = connection.pool
        if pool is not None:
            statistics = pool.get_stats()
            # All but this test's own connection are back.
            assert statistics["pool_size"] - statistics["pool_available"] <= 1


class TestRevocation:
    async def test_in_this_process_at_once(self, key) -> None:
        row, minted = key
        assert (await api_key_lookup(plaintext=minted.plaintext)).state is KeyState.VALID
        await in_database(services.api_key_revoke)(key=row)
        assert (await api_key_lookup(plaintext=minted.plaintext)).state is KeyState.REVOKED

    async def test_not_before_its_transaction_is_committed(self, key) -> None:
        row, minted = key
        await api_key_lookup(plaintext=minted.plaintext)

        def revoke_and_roll_back() -> None:
            from django.db import transaction

            with transaction.atomic():
                services.api_key_revoke(key=row)
                transaction.set_rollback(True)

        await in_database(revoke_and_roll_back)()
        assert (await api_key_lookup(plaintext=minted.plaintext)).state is KeyState.VALID

    async def test_by_another_process_within_five_seconds(self, key) -> None:
        row, minted = key
        clock = FakeClock()
        cache = KeyCache(load=api_key_facts_read, monotonic=clock.monotonic)
        assert (await api_key_lookup(plaintext=minted.plaintext, cache=cache)).state is KeyState.VALID

        def revoke_elsewhere() -> None:
            with second_connection() as other:
                other.execute("UPDATE accounts_apikey SET revoked_at = now() WHERE id = %s", [row.pk])

        await asyncio.to_thread(revoke_elsewhere)
        clock.advance(3.9)
        assert (await api_key_lookup(plaintext=minted.plaintext, cache=cache)).state is KeyState.VALID
        clock.advance(0.2)
        assert (await api_key_lookup(plaintext=minted.plaintext, cache=cache)).state is KeyState.REVOKED
        assert cache.statistics().num_queries == 2


class TestOutage:
    async def test_an_error_of_the_database_is_unavailable_and_its_log_has_no_parameters(
        self, key, caplog: pytest.LogCaptureFixture
    ) -> None:
        minted = key[1]
        rename = "ALTER TABLE {} RENAME TO {}"

        def move(old: str, new: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(rename.format(old, new))

        await in_database(move)("accounts_apikey", "accounts_apikey_away")
        try:
            with caplog.at_level(logging.DEBUG), pytest.raises(AccountsUnavailable) as caught:
                await api_key_lookup(plaintext=minted.plaintext)
        finally:
            await in_database(move)("accounts_apikey_away", "accounts_apikey")
        assert minted.digest not in str(caught.value)
        accounts_log = "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("accounts"))
        assert minted.digest not in accounts_log
        assert minted.plaintext not in caplog.text
        assert (await api_key_lookup(plaintext=minted.plaintext)).state is KeyState.VALID

    async def test_a_database_that_hangs_is_unavailable_in_time(self, key) -> None:
        cache = KeyCache(load=api_key_facts_read, timeout_s=0.2)
        with second_connection() as other:
            other.execute("LOCK TABLE accounts_apikey IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(AccountsUnavailable):
                await api_key_lookup(plaintext=key[1].plaintext, cache=cache)
            other.rollback()
        assert (await api_key_lookup(plaintext=key[1].plaintext, cache=cache)).state is KeyState.VALID


class TestFind:
    def test_by_id_by_prefix_and_by_the_key_itself(self, key) -> None:
        row, minted = key
        for reference in (str(row.pk), minted.visible_prefix, minted.visible_prefix[:14], minted.plaintext):
            assert api_key_find(reference=reference) == row

    @pytest.mark.parametrize(
        "reference",
        [
            "",
            "0",
            "9" * 18,
            "9" * 40,
            "²",
            "sk-",
            "sk-skippy-",
            "sk-skippy-abc",
            "sk-skippy-%%%%",
            "\ud83d",
            "a\x00",
        ],
        ids=ascii,
    )
    def test_nothing_else_is_a_key(self, key, reference) -> None:
        with pytest.raises(KeyNotFound):
            api_key_find(reference=reference)

    def test_a_wrong_key_is_not_repeated(self, key) -> None:
        wrong = key[1].plaintext[:-1]
        with pytest.raises(KeyNotFound) as caught:
            api_key_find(reference=wrong)
        assert wrong[16:] not in str(caught.value)

    def test_two_that_begin_alike_are_not_guessed_between(self, ann, key) -> None:
        row, minted = key
        twin, _ = services.api_key_create(user=ann, name="twin")
        ApiKey.objects.filter(pk=twin.pk).update(visible_prefix=minted.visible_prefix[:-1] + "!")
        with pytest.raises(KeyAmbiguous, match=rf"{twin.pk}, {row.pk}"):
            api_key_find(reference=minted.visible_prefix[:15])
        assert api_key_find(reference=minted.visible_prefix) == row


def test_the_listing_takes_one_query_and_no_digests(ann, key, django_assert_num_queries) -> None:
    services.api_key_create(user=services.user_ensure(username="bob"), name="other")
    with django_assert_num_queries(1) as captured:
        rows = list(api_keys_for_listing())
        assert [(row.name, row.user.username) for row in rows] == [("other", "bob"), ("laptop", "ann")]
    assert "digest" not in captured[0]["sql"]
    assert [row.name for row in api_keys_for_listing(username="ann")] == ["laptop"]
