"""The columns that hold limits; keys, users and teams have the same ones."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_network

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from accounts.contracts import Limits
from accounts.names import validate_name

MAX_ALLOWED = 100
MAX_MODEL_ID_LENGTH = 200
# As long as an IPv6 network can be written: eight groups, their colons, and /128.
MAX_NETWORK_LENGTH = 43
# Postgres' bigint, with room to add two of them up.
MAX_COUNT = 2**62
MAX_SMALL_COUNT = 2**31 - 1
DEFAULT_ALERT_PERCENT = Limits().budget_alert_percent

_COUNTS = (
    "max_requests_per_minute",
    "max_tokens_per_minute",
    "max_parallel_requests",
    "max_tokens_per_day",
    "max_tokens_per_week",
    "max_tokens_per_month",
)
LIMIT_COLUMNS = (*_COUNTS, "budget_alert_percent", "allowed_models", "allowed_networks")


def validate_network(text: str) -> None:
    """Raises ValidationError with a sentence for people: an address or a network, no host bits set."""
    try:
        ip_network(text)
    except ValueError:
        raise ValidationError(
            "Write a network as 10.0.0.0/8, 2001:db8::/32 or one address.", code="bad_network"
        ) from None


def _count(words: str, help_text: str, *, largest: int = MAX_COUNT) -> models.BigIntegerField:
    return models.BigIntegerField(
        words,
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(largest)],
        help_text=help_text,
    )


class LimitColumns(models.Model):
    """See accounts.contracts.Limits: empty does not limit, 0 lets nothing through."""

    max_requests_per_minute = _count("requests per minute", "Empty: not limited.", largest=MAX_SMALL_COUNT)
    max_tokens_per_minute = _count("tokens per minute", "Prompt and output together. Empty: not limited.")
    max_parallel_requests = _count(
        "parallel requests", "Running and waiting together. Empty: not limited.", largest=MAX_SMALL_COUNT
    )
    max_tokens_per_day = _count("tokens per day", "From midnight, UTC. Empty: not limited.")
    max_tokens_per_week = _count("tokens per week", "From Monday, UTC. Empty: not limited.")
    max_tokens_per_month = _count("tokens per month", "From the first, UTC. Empty: not limited.")
    budget_alert_percent = models.PositiveSmallIntegerField(
        "alert at percent",
        default=DEFAULT_ALERT_PERCENT,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text="The share of a token budget from which on its use is told. Empty: 80.",
    )
    allowed_models = ArrayField(
        models.CharField(max_length=MAX_MODEL_ID_LENGTH, validators=[validate_name]),
        verbose_name="models",
        size=MAX_ALLOWED,
        default=list,
        blank=True,
        help_text="Ids of the models that may be used, with commas. Empty: all.",
    )
    allowed_networks = ArrayField(
        models.CharField(max_length=MAX_NETWORK_LENGTH, validators=[validate_network]),
        verbose_name="networks",
        size=MAX_ALLOWED,
        default=list,
        blank=True,
        help_text="From where it may be used, as 10.0.0.0/8, with commas. Empty: from everywhere.",
    )

    class Meta:
        abstract = True

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Django's, after an alert that was left empty in a form has got its default."""
        if self.budget_alert_percent is None:
            self.budget_alert_percent = DEFAULT_ALERT_PERCENT
        super().clean_fields(exclude)

    def limits(self) -> Limits:
        return Limits(
            **{column: getattr(self, column) for column in (*_COUNTS, "budget_alert_percent")},
            allowed_models=tuple(self.allowed_models),
            allowed_networks=tuple(ip_network(network) for network in self.allowed_networks),
        )

    def set_limits(self, limits: Limits) -> None:
        """Not saved, and not checked either: `clean_fields` does."""
        for column in (*_COUNTS, "budget_alert_percent"):
            setattr(self, column, getattr(limits, column))
        self.allowed_models = list(limits.allowed_models)
        self.allowed_networks = [str(network) for network in limits.allowed_networks]


def limit_constraints(table: str) -> list[models.CheckConstraint]:
    """What the database itself refuses, whoever writes to it."""
    not_negative = models.Q()
    for column in _COUNTS:
        not_negative &= models.Q((f"{column}__isnull", True)) | models.Q((f"{column}__gte", 0))
    percent = models.Q(budget_alert_percent__gte=1, budget_alert_percent__lte=100)
    return [
        models.CheckConstraint(condition=not_negative, name=f"{table}_limits_not_negative"),
        models.CheckConstraint(condition=percent, name=f"{table}_alert_is_a_percentage"),
    ]
