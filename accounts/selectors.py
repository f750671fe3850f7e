"""Reading accounts: who is calling, and which keys there are.

`api_key_lookup` is on the path of every request: it costs a hash and a dictionary look-up while
the key's facts are fresh, and one indexed query otherwise, never a scan. Refused keys take the
same way as good ones: what was found is judged only after it was read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.db import Error as DatabaseFailure
from django.db import close_old_connections
from django.db.models import QuerySet
from django.utils import timezone

from accounts import keys
from accounts.contracts import AccountsUnavailable, KeyFacts, KeyLookup, KeyState
from accounts.key_cache import KeyCache
from accounts.models import ApiKey
from accounts.models.limit_columns import LIMIT_COLUMNS

logger = logging.getLogger(__name__)

# Four characters of the random part: as short as a reference may be, to be told from a slip.
MIN_REFERENCE_LENGTH = len(keys.PREFIX) + 4
WARN_EVERY_S = 10.0
# What a look-up reads: no password hash of the user travels with each key.
_FACTS = (
    "name",
    "expires_at",
    "revoked_at",
    "has_session_trust",
    "priority",
    "scopes",
    "keeps_text",
    "user",
    "user__username",
    "user__is_active",
    "user__policy__has_session_trust",
    "user__policy__priority",
    "user__policy__team__name",
    "user__policy__team__priority",
    *LIMIT_COLUMNS,
    *(f"user__policy__{column}" for column in LIMIT_COLUMNS),
    *(f"user__policy__team__{column}" for column in LIMIT_COLUMNS),
)


class KeyNotFound(LookupError):
    """No key is meant by this reference."""


class KeyAmbiguous(LookupError):
    """More than one key is meant by this reference."""


class _OutageLog:
    """One line for an outage now and then, not one for each request that meets it."""

    def __init__(self) -> None:
        self._next_ts = 0.0

    def note(self, error: Exception) -> None:
        now = time.monotonic()
        if now >= self._next_ts:
            self._next_ts = now + WARN_EVERY_S
            # The class only: messages of the database may repeat a query's parameters.
            logger.warning("keys cannot be looked up: %s", type(error).__name__)


_outage_log = _OutageLog()


def api_key_facts_read(digest: str) -> KeyFacts | None:
    """What the database says of the key with this digest, by one query. Raises `AccountsUnavailable`."""
    rows = ApiKey.objects.select_related("user__policy__team").only(*_FACTS)
    return on_cache_thread(lambda: rows.get(digest=digest).facts())


def on_cache_thread(read: Callable[[], KeyFacts | None]) -> KeyFacts | None:
    """What `read` finds, None where its key is not there.

    For a thread of a cache's own: it takes a connection and gives it back around the query, as
    Channels' `database_sync_to_async` does. Raises `AccountsUnavailable`.
    """
    close_old_connections()
    try:
        return read()
    except ObjectDoesNotExist:
        return None
    except DatabaseFailure as error:
        _outage_log.note(error)
        raise AccountsUnavailable("the database could not be asked") from None
    finally:
        close_old_connections()


# This process's memory of keys. Services make it forget what they change; other processes learn of
# a change when their facts run out.
api_key_cache = KeyCache(load=api_key_facts_read, stale_s=settings.ACCOUNTS_STALE_KEYS_S)


async def api_key_lookup(*, plaintext: str, cache: KeyCache = api_key_cache) -> KeyLookup:
    """Whose key this is, and whether it opens anything now.

    A revocation anywhere is seen within 4 s, an expiry at once. Raises `AccountsUnavailable` when
    the key is not in the cache and the database cannot be asked (for at most 5 s).
    """
    if not keys.is_well_formed(plaintext):
        return KeyLookup(KeyState.UNKNOWN)
    facts = await cache.facts_of(keys.digest_of(plaintext))
    return KeyLookup(KeyState.UNKNOWN) if facts is None else facts.lookup_at(timezone.now())


def api_keys_for_listing(*, username: str | None = None) -> QuerySet[ApiKey]:
    """All keys, newest first, with their users and without their digests; those of one user if named."""
    rows = ApiKey.objects.select_related("user__policy__team").defer("digest")
    return rows if username is None else rows.filter(user__username=username)


def api_key_find(*, reference: str) -> ApiKey:
    """The key that a person means by its id, by the start of its visible prefix, or by the key itself.

    The last is for a key found where it should not be. Raises `KeyNotFound` or `KeyAmbiguous`
    (also when the others are revoked: a person who is not sure should say which). Messages never
    repeat the reference, since it may be a key.
    """
    rows = ApiKey.objects.select_related("user__policy__team").defer("digest")
    if reference.isascii() and reference.isdigit():
        found = list(rows.filter(pk=int(reference))) if len(reference) < 19 else []
    elif keys.is_well_formed(reference):
        found = list(rows.filter(digest=keys.digest_of(reference)))
    elif (
        reference.startswith(keys.PREFIX)
        and MIN_REFERENCE_LENGTH <= len(reference) <= keys.VISIBLE_PREFIX_LENGTH
        and reference.isprintable()
    ):
        found = list(rows.filter(visible_prefix__startswith=reference)[:10])
    else:
        raise KeyNotFound(
            "a key is named by its id, by its whole text, or by the start of its visible prefix "
            f"({MIN_REFERENCE_LENGTH} to {keys.VISIBLE_PREFIX_LENGTH} characters)"
        )
    if not found:
        raise KeyNotFound("there is no such key")
    if len(found) > 1:
        ids = ", ".join(str(row.pk) for row in found)
        raise KeyAmbiguous(f"more than one key begins like that; name one by its id: {ids}")
    return found[0]
