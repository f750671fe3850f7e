"""/api/hook-policies/try: what policies would do to a request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.view import ManagementView
from accounts.scopes import Scope
from hooks.api.policy_serializers import policy_written
from hooks.api.trial_serializers import (
    TrialRequest,
    TrialSerializer,
    outcome_given,
    output_given,
    signals_given,
    trial_shown,
    window_given,
)
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.refusals import InvalidField
from hooks.selectors import policies_for_trial
from hooks.services.policy_checks import check_policy
from hooks.services.trial import Trial, policy_try
from hooks.services.trial_desk import trial_desk

DRAFT_ID = 0


class PolicyTrialView(ManagementView):
    scopes: ClassVar = {"POST": frozenset({Scope.POLICIES})}

    @extend_schema(
        operation_id="tryHookPolicies",
        tags=["hook policies"],
        summary="What policies would do to a request; nothing is generated, kept or sent on",
        request=TrialRequest,
        responses=TrialSerializer,
    )
    def post(self, request: Request) -> Response:
        body = TrialRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        desk = trial_desk()
        who = given.get("caller") or {"user_id": self.caller.user_id, "key_id": self.caller.key_id}
        view, model = desk.view(given["endpoint"], given["body"])
        trial = Trial(
            caller=desk.caller(user_id=who.get("user_id", self.caller.user_id), key_id=who.get("key_id")),
            model=model,
            request=view,
            first_token=signals_given(given),
            window=window_given(given),
            output=output_given(given),
            outcome=outcome_given(given),
        )
        policies = [*_saved(given), *_draft(given)]
        # On a loop of its own: this thread has none, and conditions may take their time.
        result = asyncio.run(policy_try(trial=trial, policies=policies))
        return Response(trial_shown(result), headers={"Cache-Control": "no-store"})


def _saved(given: dict[str, Any]) -> list[Policy]:
    enforced = frozenset(given["enforce"])
    found = policies_for_trial(enforced=enforced)
    missing = enforced - {policy.policy_id for policy in found}
    if missing:
        raise InvalidField("enforce", f"there is no policy with the id {min(missing)}")
    return [policy for policy in found if policy.policy_id != given.get("replaces")]


def _draft(given: dict[str, Any]) -> list[Policy]:
    if "draft" not in given:
        return []
    draft = given["draft"]
    try:
        policy = replace(policy_written(draft, policy_id=DRAFT_ID), mode=PolicyMode.ENFORCE)
        check_policy(policy, description=draft.get("description", ""))
    except InvalidField as refusal:
        raise InvalidField(f"draft.{refusal.field}", refusal.problem) from None
    return [policy]
