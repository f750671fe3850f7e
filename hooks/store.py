"""Policies and webhooks in the memory of a process that serves (accounts.watched_rows says how)."""

from __future__ import annotations

import logging
from typing import Any

from accounts.watched_rows import WatchedRows
from hooks.contracts.policies import Policy
from hooks.contracts.snapshots import UNREAD, PolicySnapshot

_log = logging.getLogger(__name__)


class PolicyStore(WatchedRows[PolicySnapshot]):
    """Implements hooks.contracts.snapshots.PolicySource for one process. Until policies were read, UNREAD
    holds."""

    def __init__(self, **rest: Any) -> None:
        """As WatchedRows."""
        super().__init__(UNREAD, what="policies", **rest)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {len(self.snapshot.policies)} policies>"

    def complain(self, found: PolicySnapshot) -> None:
        known = {policy.policy_id: policy.fault for policy in self.snapshot.policies}
        for policy in found.policies:
            if policy.fault and known.get(policy.policy_id) != policy.fault:
                _log.error("%s", _complaint(policy))


def _complaint(policy: Policy) -> str:
    meaning = "refuses its requests" if policy.is_required else "is passed over"
    return f"policy {policy.name!r} cannot be read and {meaning}: {policy.fault}"
