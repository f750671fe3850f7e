"""What policies and webhooks as rows need of this site: whom there is, how secrets are kept, the database."""

from __future__ import annotations

from collections.abc import Mapping, Set

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user_model

from accounts.models import ApiKey, Team
from hooks.contracts.snapshots import PolicySnapshot
from hooks.secrets import SecretBox
from hooks.selectors import policy_snapshot_read
from hooks.services.announcement import CHANNEL
from hooks.store import PolicyStore
from inference.ledger.database_calls import database_parameters
from inference.models import ModelRow


class SiteScopeDirectory:
    """Implements hooks.services.scope_directory.ScopeDirectory."""

    def teams(self, ids: Set[int]) -> Mapping[int, str]:
        return dict(Team.objects.filter(pk__in=ids).values_list("pk", "name"))

    def users(self, ids: Set[int]) -> Mapping[int, str]:
        return dict(get_user_model().objects.filter(pk__in=ids).values_list("pk", "username"))

    def keys(self, ids: Set[int]) -> Mapping[int, str]:
        rows = ApiKey.objects.filter(pk__in=ids).values_list("pk", "name", "user__username")
        return {pk: f"{name} of {username}" for pk, name, username in rows}

    def models(self, ids: Set[str]) -> Set[str]:
        return set(ModelRow.objects.filter(model_id__in=ids).values_list("model_id", flat=True))

    def teams_named(self, names: Set[str]) -> Mapping[str, int]:
        return dict(Team.objects.filter(name__in=names).values_list("name", "pk"))

    def users_named(self, names: Set[str]) -> Mapping[str, int]:
        return dict(get_user_model().objects.filter(username__in=names).values_list("username", "pk"))


def make_secret_box() -> SecretBox:
    return SecretBox(settings.SECRET_KEY, older=settings.SECRET_KEY_FALLBACKS)


def make_policy_store() -> PolicyStore:
    """Of this process."""
    return PolicyStore(read=_snapshot_read, parameters=database_parameters(), channel=CHANNEL)


async def _snapshot_read() -> PolicySnapshot:
    found: PolicySnapshot = await database_sync_to_async(policy_snapshot_read, thread_sensitive=False)()
    return found
