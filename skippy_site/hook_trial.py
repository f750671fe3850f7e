"""What a trial of policies needs of this site: how each wire is read, and who would send a request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model

from accounts.models import ApiKey
from hooks.contracts.refusals import InvalidField
from hooks.contracts.view import HookCaller, RequestView
from hooks.contracts.webhook_settings import WebhookSettings
from hooks.selectors import policy_snapshot_read
from hooks.services.trial_desk import SaidAnswer
from hooks.webhooks.caller import HttpWebhookCaller
from inference.domain.errors import InvalidRequest, ModelNotFound
from inference.hooking.views import request_view
from inference.model_rows.selectors import model_row_named
from inference.parsing.output_window import OutputWindow
from skippy_site.said_answers import SaidWindow, answer_deltas
from skippy_site.webhooks import make_webhook_caller
from skippy_site.wire_readers import WIRE_READERS

_NO_KEY = 0


class SiteTrialDesk:
    """Implements hooks.services.trial_desk.TrialDesk."""

    def view(self, endpoint: str, body: Mapping[str, Any]) -> tuple[RequestView, str]:
        try:
            request = WIRE_READERS[endpoint](json.dumps(body).encode(), strict_fields=False)
        except InvalidRequest as problem:
            where = "body" if problem.param is None else f"body.{problem.param}"
            said = problem.message.partition("': ")[2] or problem.message
            raise InvalidField(where, said.rstrip(".")) from None
        model = _model_id(request.model)
        return request_view(request, endpoint=endpoint), model

    def caller(self, *, user_id: int, key_id: int | None) -> HookCaller:
        if key_id is not None:
            key = ApiKey.objects.select_related("user__policy__team").filter(pk=key_id).first()
            if key is None:
                raise InvalidField("caller.key_id", "there is no such key")
            principal = key.facts().principal
            return HookCaller(
                user_id=principal.user_id,
                username=principal.username,
                key_id=principal.key_id,
                key_name=principal.key_name,
                team_id=principal.team_id,
                team_name=principal.team_name,
            )
        user = get_user_model().objects.select_related("policy__team").filter(pk=user_id).first()
        if user is None:
            raise InvalidField("caller.user_id", "there is no such user")
        team = getattr(getattr(user, "policy", None), "team", None)
        return HookCaller(
            user_id=user.pk,
            username=user.get_username(),
            key_id=_NO_KEY,
            key_name="",
            team_id=None if team is None else team.pk,
            team_name="" if team is None else team.name,
        )

    def answer(self, said: SaidAnswer, *, held_chars: int | None, seen_chars: int = 0) -> SaidWindow:
        window = OutputWindow(held_chars=held_chars, seen_chars=seen_chars)
        return SaidWindow(
            window,
            answer_deltas(said.content, said.calls, said.reasoning, chunk_chars=said.chunk_chars),
            is_stream=held_chars is not None,
        )

    def webhooks(self) -> AbstractAsyncContextManager[HttpWebhookCaller]:
        return _calling(policy_snapshot_read().webhooks.values())


@asynccontextmanager
async def _calling(webhooks: Iterable[WebhookSettings]) -> AsyncIterator[HttpWebhookCaller]:
    caller = make_webhook_caller(settings.ENVIRONMENT)
    caller.use(webhooks)
    try:
        yield caller
    finally:
        await caller.close()


def _model_id(name: str) -> str:
    """As it was said, where there is nothing of that name: policies are asked before that is found out."""
    try:
        return str(model_row_named(name).model_id)
    except ModelNotFound:
        return name
