"""All policies and webhooks as one process knows them at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hooks.contracts.points import HookPoint
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.webhook_settings import WebhookSettings


@dataclass(frozen=True, slots=True)
class PolicySnapshot:
    """`policies` are those that are not off, in the order in which they are applied. `webhooks` are all
    that there are, by id; one whose secret cannot be read is not among them."""

    policies: tuple[Policy, ...] = ()
    webhooks: Mapping[int, WebhookSettings] = field(default_factory=dict)


UNREAD = PolicySnapshot(
    (
        Policy(
            policy_id=0,
            name="(policies)",
            point=HookPoint.BEFORE,
            actions=(),
            mode=PolicyMode.ENFORCE,
            fault="policies were not read yet",
        ),
    )
)
"""What holds until rows were read for the first time: everybody is refused, since nobody knows what has to
be kept."""


class PolicySource(Protocol):
    """Whoever reads the rows. Event loop only."""

    @property
    def snapshot(self) -> PolicySnapshot:
        """The newest one; the last one that there was while the database is away, UNREAD where there was
        none."""
        ...

    def subscribe(self, told: Callable[[PolicySnapshot], None]) -> None:
        """`told` is called with the snapshot that there is now, and with each other one from then on."""
        ...
