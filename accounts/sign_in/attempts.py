"""Counts tries to sign in, in all processes together, and says when the next one may be made.

A try is counted as failed before the password is looked at, and given back if it was right: of a thousand at
once no more than the free ones are looked at. While a source has to wait, tries are refused and not counted,
so nobody makes it longer by trying. In Postgres, without which nobody can sign in anyway: there is no other
store that could be away.

Whoever signs in from a browser in which he has done so before is counted there alone (`devices`): a stranger
who keeps a name, or the address of an office, busy does not shut him out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts.models import SignInAttempts
from accounts.sign_in.attempt_rules import ADDRESS, FORGOTTEN_AFTER, NAME, ONE_OF_ONE, AttemptRule

_SALT = "skippy.sign_in.attempts"
_IPV6_CUSTOMER_BITS = 64
KEPT_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SignInTry:
    """One try. `name` is what was typed, `user_id` whom it names, None if nobody; `device` is the id of a
    browser in which this user has signed in before."""

    address: str
    name: str
    user_id: int | None
    device: str | None = None

    def sources(self) -> Mapping[str, AttemptRule]:
        who = f"user {self.user_id}" if self.user_id is not None else f"name {folded(self.name)}"
        if self.device is not None:
            return {_digest("device", self.device, who): ONE_OF_ONE}
        network = network_of(self.address)
        return {
            _digest("pair", network, who): ONE_OF_ONE,
            _digest("name", who): NAME,
            _digest("address", network): ADDRESS,
        }


@dataclass(frozen=True, slots=True)
class CodeTry:
    """One try of a user's second factor, or of his password while he is signed in."""

    user_id: int
    device: str | None = None

    def sources(self) -> Mapping[str, AttemptRule]:
        return {_digest("code", self.device or "", f"user {self.user_id}"): ONE_OF_ONE}


Try = SignInTry | CodeTry


@dataclass(frozen=True, slots=True)
class CountedTry:
    """A try that may be made now, counted as failed until `attempt_succeeded` is told of it."""

    attempt: Try
    at: datetime


class TooManyAttempts(Exception):
    """The next try may be made in `wait_s` whole seconds."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"too many attempts: {wait_s} s")
        self.wait_s = wait_s


def attempt_begin(attempt: Try) -> CountedTry:
    """Count it. Raises TooManyAttempts, and then nothing was counted."""
    rules = attempt.sources()
    sources = sorted(rules)
    with transaction.atomic():
        SignInAttempts.objects.bulk_create(
            [
                # An address is everybody's.
                SignInAttempts(source=source, user_id=None if rules[source] is ADDRESS else attempt.user_id)
                for source in sources
            ],
            ignore_conflicts=True,
        )
        # In one order, so that two that share sources do not wait for each other.
        rows = list(SignInAttempts.objects.select_for_update().filter(pk__in=sources).order_by("pk"))
        now = timezone.now()
        waits = [row.refused_until - now for row in rows if row.refused_until and row.refused_until > now]
        if waits:
            raise TooManyAttempts(max(waits) // timedelta(seconds=1) + 1)
        for row in rows:
            if row.last_at is None or row.last_at < now - FORGOTTEN_AFTER:
                row.num_failed = 0
            row.num_failed += 1
            row.last_at = now
            row.refused_until = now + rules[row.pk].pause_after(row.num_failed)
        SignInAttempts.objects.bulk_update(rows, ["num_failed", "last_at", "refused_until"])
    return CountedTry(attempt, now)


def attempt_succeeded(counted: CountedTry) -> None:
    """It was none of the failures. What is of this name at this address is forgotten; of what others share
    this try alone is taken back, so that a guesser's own account does not wash his guesses off."""
    rules = counted.attempt.sources()
    own = [source for source, rule in rules.items() if rule is ONE_OF_ONE]
    shared = SignInAttempts.objects.filter(pk__in=[source for source in rules if source not in own])
    with transaction.atomic():
        SignInAttempts.objects.filter(pk__in=own).delete()
        # Who failed in the meantime has set a pause of his own, which stays.
        shared.filter(last_at=counted.at).update(refused_until=None)
        shared.filter(num_failed__gt=0).update(num_failed=F("num_failed") - 1)


def attempts_forget_user(user_id: int) -> int:
    """Of all that counts for this user; how many rows that were."""
    return int(SignInAttempts.objects.filter(user_id=user_id).delete()[0])


def attempts_forget_address(address: str) -> int:
    """What counts for this address alone. Raises ValueError if it is none."""
    ip_address(address)
    source = _digest("address", network_of(address))
    return int(SignInAttempts.objects.filter(pk=source).delete()[0])


def attempts_expire(now: datetime | None = None) -> int:
    """Delete what has been quiet for a day."""
    before = (now or timezone.now()) - KEPT_FOR
    return int(SignInAttempts.objects.filter(last_at__lt=before).delete()[0])


def network_of(address: str) -> str:
    """What counts as one address: an IPv6 customer has a /64 to himself."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, _IPV6_CUSTOMER_BITS), strict=False))
    return str(parsed)


def folded(name: str) -> str:
    """All spellings of a name as one: in capitals first, since some letters share theirs alone."""
    return name.upper().casefold()


def _digest(kind: str, *parts: str) -> str:
    text = "\0".join((kind, *parts)).encode("utf-8", "surrogatepass")
    return str(salted_hmac(_SALT, text, algorithm="sha256").hexdigest())
