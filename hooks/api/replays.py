"""/api/hook-policies/{id}/replays: what a policy would have done to past requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.listing import PageQuery, list_of, page_of, query_of
from accounts.api.strict_serializer import StrictSerializer
from accounts.api.view import ManagementView
from accounts.roles import sees_texts_of_others
from accounts.scopes import Scope
from hooks.api.policy_serializers import PolicyRequest, policy_written
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.refusals import InvalidField, NotThere
from hooks.models import HookReplay
from hooks.models.replay import ReplayState
from hooks.services.columns import policy_of
from hooks.services.policies import policy_get
from hooks.services.replay_report import (
    ReplayViewer,
    replay_report,
    replay_reports,
    report_written,
)
from hooks.services.replays import SPANS, replay_cancel, replay_get, replay_resume, replay_start

_POLICIES = frozenset({Scope.POLICIES})


class ReplayRequest(StrictSerializer):
    span = serializers.ChoiceField(choices=list(SPANS), default="day", help_text="how far back")
    draft = PolicyRequest(required=False, help_text="replayed in place of what is saved")


def _counts(help_text: str = "") -> serializers.DictField:
    return serializers.DictField(child=serializers.IntegerField(), help_text=help_text)


class ReplayExampleSerializer(serializers.Serializer):
    record_id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    model = serializers.CharField()
    actions = serializers.ListField(child=serializers.CharField())
    num_matches = serializers.IntegerField(allow_null=True, help_text="places that would have been masked")
    failure = serializers.CharField()


class ReplaySerializer(serializers.Serializer):
    """num_records = num_unasked + num_full + num_by_condition + num_not_evaluated. Top lists and examples are
    empty without the scope usage_all."""

    id = serializers.IntegerField()
    policy_id = serializers.IntegerField(allow_null=True)
    policy = serializers.CharField(help_text="its name")
    is_draft = serializers.BooleanField()
    state = serializers.ChoiceField(choices=[state.value for state in ReplayState])
    reason = serializers.CharField(help_text="why it failed")
    is_quiet = serializers.BooleanField(help_text="no worker goes on with it")
    start_at = serializers.DateTimeField()
    end_at = serializers.DateTimeField()
    looks_at_texts = serializers.BooleanField()
    asked_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    percent = serializers.IntegerField()
    num_total = serializers.IntegerField(allow_null=True, help_text="records of the span")
    num_records = serializers.IntegerField(help_text="looked at so far")
    num_unasked = serializers.IntegerField()
    num_full = serializers.IntegerField(help_text="evaluated with their text")
    num_by_condition = serializers.IntegerField(help_text="evaluated by what the record has")
    num_not_evaluated = serializers.IntegerField()
    num_matched = serializers.IntegerField()
    num_failed = serializers.IntegerField()
    num_refused = serializers.IntegerField(help_text="that would have been refused because the policy failed")
    num_text_matches = serializers.IntegerField(help_text="places that would have been masked")
    unasked = _counts("why policies were not asked about them")
    not_evaluated = _counts("why")
    failures = _counts("why")
    actions = _counts("requests to which each would have been done")
    left_out = _counts("why an action could not have been done")
    webhooks = _counts("that would have been asked; none was")
    models = _counts("of those that matched")
    teams = _counts("of those that matched")
    keys = _counts("of those that matched")
    examples = ReplayExampleSerializer(many=True)


class _ReplayView(ManagementView):
    @property
    def viewer(self) -> ReplayViewer:
        """A key opens no texts of others, whatever its scopes."""
        sees_texts = self.caller.key is None and sees_texts_of_others(self.request.user)
        return ReplayViewer(self.caller.has(Scope.USAGE_ALL), sees_texts)

    def shown(self, row: HookReplay, status: int = 200) -> Response:
        written = report_written(replay_report(row, self.viewer))
        return Response(ReplaySerializer(written).data, status=status, headers={"Cache-Control": "no-store"})

    def found(self, policy_id: str, replay_id: str) -> HookReplay:
        row = replay_get(replay_id=int(replay_id), policy_id=int(policy_id))
        if not self.viewer.may_see(row):
            raise NotThere(None, "there is no such replay")
        return row


class ReplaysView(_ReplayView):
    scopes: ClassVar = {"GET": _POLICIES, "POST": _POLICIES}

    @extend_schema(
        operation_id="listHookPolicyReplays",
        tags=["hook policies"],
        summary="Replays of a policy, newest first, kept for a week",
        parameters=[PageQuery],
        responses=list_of("HookPolicyReplayList", ReplaySerializer),
    )
    def get(self, request: Request, policy_id: str) -> Response:
        rows = self.viewer.seen(HookReplay.objects.filter(policy_id=int(policy_id)))
        page = page_of(rows, query_of(request, PageQuery))
        # Names and examples are told of one at a time.
        viewer = replace(self.viewer, sees_everybody=False)
        shown = [report_written(report) for report in replay_reports(page.rows, viewer)]
        return page.response_of(ReplaySerializer(shown, many=True).data)

    @extend_schema(
        operation_id="startHookPolicyReplay",
        tags=["hook policies"],
        summary="Ask what a policy would have done in the last hour or day; a worker finds out",
        request=ReplayRequest,
        responses={202: ReplaySerializer},
    )
    def post(self, request: Request, policy_id: str) -> Response:
        body = ReplayRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        row = policy_get(policy_id=int(policy_id))
        is_draft = "draft" in given
        policy = _draft(given["draft"], row.pk) if is_draft else policy_of(row)
        replay = replay_start(
            policy=policy,
            span=given["span"],
            looks_at_texts=self.viewer.sees_texts,
            is_draft=is_draft,
        )
        return self.shown(replay, status=202)


class ReplayView(_ReplayView):
    scopes: ClassVar = {"GET": _POLICIES}

    @extend_schema(
        operation_id="getHookPolicyReplay",
        tags=["hook policies"],
        summary="How far a replay has come, and what it has found",
        responses=ReplaySerializer,
    )
    def get(self, request: Request, policy_id: str, replay_id: str) -> Response:
        return self.shown(self.found(policy_id, replay_id))


class ReplayCancelView(_ReplayView):
    scopes: ClassVar = {"POST": _POLICIES}

    @extend_schema(
        operation_id="cancelHookPolicyReplay",
        tags=["hook policies"],
        summary="End a replay; what it has found stays. May be repeated",
        request=None,
        responses=ReplaySerializer,
    )
    def post(self, request: Request, policy_id: str, replay_id: str) -> Response:
        return self.shown(replay_cancel(replay_id=self.found(policy_id, replay_id).pk))


class ReplayResumeView(_ReplayView):
    scopes: ClassVar = {"POST": _POLICIES}

    @extend_schema(
        operation_id="resumeHookPolicyReplay",
        tags=["hook policies"],
        summary="Go on with a replay that was cancelled, has failed, or stands still",
        request=None,
        responses={202: ReplaySerializer},
    )
    def post(self, request: Request, policy_id: str, replay_id: str) -> Response:
        return self.shown(replay_resume(replay_id=self.found(policy_id, replay_id).pk), status=202)


def _draft(given: dict[str, Any], policy_id: int) -> Policy:
    try:
        return replace(policy_written(given, policy_id=policy_id), mode=PolicyMode.ENFORCE)
    except InvalidField as refusal:
        raise InvalidField(f"draft.{refusal.field}", refusal.problem) from None
