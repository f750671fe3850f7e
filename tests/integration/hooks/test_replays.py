"""What a policy would have done: said where it is known, counted as not evaluated where it is not, in numbers
that add up; in slices that may be lost, and for those alone who may see what they tell."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import services as accounts
from accounts.models import AdministrativeChange
from accounts.personal_data import DataSubject, user_erase
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from accounts.scopes import Scope
from hooks.contracts.actions import CallWebhook, Deny, MaskKind, MaskText, Tag, TextTarget
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, PolicyScope
from hooks.contracts.refusals import AlreadyTaken, InvalidField
from hooks.models import HookReplay
from hooks.replaying.knowledge import Gap
from hooks.services import replay_slices, replays
from hooks.services.replay_slices import replay_advance, replay_finish
from hooks.services.replays import replay_cancel, replay_create, replay_resume, replays_tend
from inference.ledger.personal_data import RecordHolder
from inference.models import GenerationText
from tests.integration.hooks.conftest import policy_for
from tests.integration.hooks.past import DENY, chat, past, replayed
from tests.integration.hooks.test_admin import form as policy_form

pytestmark = pytest.mark.django_db
EMAILS = (MaskText((TextTarget.INPUT,), (MaskKind.EMAIL,)),)


@pytest.fixture(autouse=True)
def no_broker(settings: Any) -> None:
    _SENT.clear()
    settings.HOOK_TASK_SENDER = "tests.integration.hooks.test_replays.note_sent"


# What would have been sent to workers.
_SENT: list[tuple[str, int]] = []


def note_sent(name: str, replay_id: int) -> bool:
    _SENT.append((name, replay_id))
    return True


class TestWhatIsKnown:
    def test_text_where_it_is_kept_and_nothing_of_it_where_it_is_not(self) -> None:
        past(chat("my salary"))
        past(chat("the weather"))
        past()
        found = replayed('has_word(text.input, "salary")').tally
        assert (found["num_full"], found["num_matched"]) == (2, 1)
        assert found["not_evaluated"] == {Gap.NO_TEXT: 1}
        assert found["actions"] == {"deny": 1}

    def test_what_the_known_part_decides_is_decided(self) -> None:
        """Either side of `||` and `&&`, whatever the other one would be."""
        past(is_stream=True)
        past(is_stream=False)
        for condition, matched, unknown in (
            ('request.stream || has_word(text.input, "x")', 1, 1),
            ('has_word(text.input, "x") || request.stream', 1, 1),
            ('request.stream && text.user.contains("x")', 0, 1),
            ("request.stream ? true : request.n > 1", 1, 1),
            ('!(request.stream && "top_k" in request.parameters)', 1, 1),
            ('["a", "b"].exists(one, request.n > 5 || request.stream)', 1, 1),
            ('principal.user == "ann" || request.temperature > 1.0', 2, 0),
            ("request.max_tokens > 4", 0, 2),
            ("request.num_media > 0 || request.num_messages > 3", 0, 2),
        ):
            found = replayed(condition).tally
            unknowns = sum(found["not_evaluated"].values())
            assert (found["num_matched"], unknowns) == (matched, unknown), condition

    @pytest.mark.parametrize(
        ("condition", "is_known"),
        [
            ('model == "tiny"', True),
            ('principal.team == ""', True),
            ('principal.key == "laptop"', True),
            ('request.endpoint == "chat.completions"', True),
            ('request.end_user == "u"', True),
            ('request.metadata == {"a": "b"}', True),
            ('"policy:seen" in request.metadata || true', True),
            ('request.model == "tiny" || true == false', False),
            ("request.opts_in || true == false", False),
        ],
    )
    def test_of_a_record_without_text(self, condition: str, is_known: bool) -> None:
        past(end_user="u", metadata={"a": "b", "policy:seen": "1"}, key_name="laptop")
        found = replayed(condition).tally
        assert (found["num_matched"], found["num_by_condition"]) == ((1, 1) if is_known else (0, 0))

    def test_what_the_service_writes_into_metadata_policies_never_see(self) -> None:
        past(metadata={"a": "b", "skippy:door": "playground"})
        assert replayed('"skippy:door" in request.metadata').tally["num_matched"] == 0
        assert replayed("size(request.metadata) == 1").tally["num_matched"] == 1

    def test_what_was_cut_or_erased_is_not_known(self) -> None:
        past(end_user="x" * 512)
        assert replayed('request.end_user == "u"').tally["not_evaluated"] == {Gap.CUT: 1}
        past(username="erased-1", key_name="", end_user="")
        assert replayed('principal.user == "ann"').tally["not_evaluated"] == {Gap.ERASED: 1}

    def test_errors_of_the_condition_are_failures_where_all_is_known(self) -> None:
        past(chat("x", metadata={"a": "b"}), metadata={"a": "b"})
        past(metadata={"a": "b"})
        done = replayed('request.metadata["c"] == "d"', on_failure=FailureRule.CLOSED).tally
        assert (done["failures"], done["num_refused"]) == ({"the condition has an error": 2}, 2)
        assert replayed('request.metadata["c"] == "d"', on_failure=FailureRule.OPEN).tally["num_refused"] == 0
        huge = replayed('request.metadata["c"] == "d" || has_word(text.user, "y")').tally
        assert huge["failures"] == {"the condition has an error": 1}  # without text it may be true

    def test_other_policies_had_changed_the_request(self) -> None:
        decision = {"point": "before_chat_completion", "result": "applied", "actions": ["mask_text"]}
        past(chat("salary"), hook_decisions=[decision])
        asks = 'has_word(text.input, "salary")'
        assert replayed(asks).tally["num_matched"] == 1
        done = replayed(asks, point=HookPoint.EFFECTIVE, actions=(Tag("t"),)).tally
        assert (done["num_matched"], done["not_evaluated"]) == (0, {Gap.CHANGED: 1})

    def test_who_may_not_view_texts_gets_nothing_of_them(self) -> None:
        past(chat("my salary"))
        done = replayed('text.input.startsWith("my s")', texts=False).tally
        assert (done["num_matched"], done["not_evaluated"]) == (0, {Gap.CLOSED: 1})


class TestWhoWasAsked:
    def test_scope_endpoint_and_requests_that_never_came_so_far(self) -> None:
        past(team_id=1)
        past(team_id=2)
        past(endpoint="embeddings", finish_reason="")
        past(model="", status=400, outcome="rejected", finish_reason="")
        past(model="typo", status=404, outcome="rejected", error_code="model_not_found", finish_reason="")
        past(finish_reason="")
        closed = {"status": 503, "outcome": "rejected", "error_code": "maintenance", "finish_reason": ""}
        past(team_id=1, **closed)
        asked = {"point": "before_chat_completion", "result": "applied", "actions": ["tag"]}
        past(team_id=1, hook_decisions=[asked], **closed)
        done = replayed("", scope=PolicyScope(team_ids=frozenset({1}))).tally
        assert done["num_matched"] == 2
        assert sum(done["unasked"].values()) == 6
        assert done["unasked"]["it was refused before policies were asked"] == 1

    def test_optional_policies_ask_for_what_only_the_text_has(self) -> None:
        past(chat("x", skippy_hooks=True))
        past(chat("x"))
        past()
        past(is_stream=True)
        done = replayed("!request.stream", is_required=False).tally
        assert (done["num_matched"], done["not_evaluated"]) == (1, {Gap.OPT_IN: 1})
        assert done["unasked"] == {"it did not ask for optional policies": 1}

    def test_the_span(self) -> None:
        past(minutes=30)
        past(minutes=90)
        past(minutes=60 * 25)
        assert replayed(span="hour").tally["num_records"] == 1
        assert replayed(span="day").tally["num_records"] == 2

    @pytest.mark.parametrize("point", [HookPoint.AFTER_PREFILL, HookPoint.MID_GENERATION])
    def test_points_that_need_signals_are_refused(self, point: HookPoint) -> None:
        with pytest.raises(InvalidField, match="how sure the model was"):
            replayed("", point=point)


class TestWhatWouldBeDone:
    def test_masks_are_counted_and_those_that_find_nothing_did_not_match(self) -> None:
        past(chat("a@example.org, b@example.org and c"))
        past(chat("nobody"))
        past()
        done = replayed("", actions=EMAILS).tally
        assert (done["num_matched"], done["num_text_matches"], done["num_masked"]) == (1, 2, 1)
        assert done["not_evaluated"] == {Gap.UNMASKED: 1}
        (example,) = done["examples"]
        assert (example["actions"], example["num_matches"]) == (["mask_text"], 2)
        assert "example.org" not in json.dumps(done)

    def test_what_is_masked_in_escapes_is_counted_too(self) -> None:
        past(chat(r'{"to": "a\u0040example.org"}'))
        done = replayed("", actions=EMAILS).tally
        assert (done["num_text_matches"], done["num_masked"]) == (1, 1)

    def test_no_webhook_is_called(self, make_webhook) -> None:
        webhook = make_webhook()
        past(chat("x"))
        done = replayed("", actions=(CallWebhook(webhook.pk), Tag("t"))).tally
        assert (done["webhooks"], done["actions"]) == ({str(webhook.pk): 1}, {"call_webhook": 1, "tag": 1})

    def test_a_denial_comes_alone_but_for_tags(self) -> None:
        past(chat("a@example.org"))
        done = replayed("", actions=(*EMAILS, Deny("no"), Tag("t"))).tally
        assert done["actions"] == {"deny": 1, "tag": 1}

    def test_too_much_text_is_a_failure(self) -> None:
        past(chat("a@example.org " * 90_000))
        assert replayed("", actions=EMAILS).tally["failures"] == {"the text is too large": 1}


class TestAnswers:
    OUT = HookPoint.OUTPUT

    def of(self, condition: str, **members: Any) -> Any:
        return replayed(condition, point=self.OUT, **members).tally

    def test_the_kept_answer_is_looked_at(self) -> None:
        past(chat("x"), "the secret is out", is_stream=True)
        past(chat("x"), "nothing")
        past(chat("x"), "nothing", num_output_tokens=0)
        past()
        done = self.of('has_word(output.folded, "secret")')
        assert (done["num_matched"], done["num_full"], done["not_evaluated"]) == (1, 2, {Gap.NO_TEXT: 1})
        assert sum(done["unasked"].values()) == 1
        masks = (MaskText((TextTarget.CONTENT,), words=("secret",)),)
        assert self.of("", actions=masks)["num_text_matches"] == 1

    def test_calls_are_told_from_content(self) -> None:
        tools = [{"type": "function", "function": {"name": "send", "parameters": {"type": "object"}}}]
        body = chat("x", tools=tools)
        answer = 'Now.\nsend({"to": "bob\\u0021",\n "n": [1]})\nsend({})'
        past(body, answer, finish_reason="tool_calls")
        condition = (
            'output.content == "Now." && output.tools == ["send", "send"] '
            '&& output.arguments.contains("bob!")'
        )
        assert self.of(condition)["num_matched"] == 1
        GenerationText.objects.update(answer='send({"to": ')
        assert self.of(condition)["not_evaluated"] == {Gap.CALLS: 1}

    def test_what_one_text_does_not_tell_is_not_guessed(self) -> None:
        past(chat("x", n=2), "a\n\nsecret")
        assert self.of('has_word(output.content, "secret")')["not_evaluated"] == {Gap.MANY_ANSWERS: 1}
        GenerationText.objects.all().delete()
        past(chat("x"), "a", num_reasoning_tokens=3, minutes=4)
        assert self.of('has_word(output.reasoning, "a")')["not_evaluated"][Gap.THINKING] == 1
        past(chat("x"), "a", is_stream=True, minutes=3)
        assert self.of("output.is_last")["not_evaluated"][Gap.STREAM] == 1

    def test_stored_responses_have_all_and_continued_ones_half(self) -> None:
        body = {"model": "tiny", "input": "hello there"}
        output = [{"type": "message", "content": [{"type": "output_text", "text": "the secret"}]}]
        past(body, json.dumps({"output": output}), stored=True, endpoint="responses")
        assert self.of('output.content == "the secret"')["num_matched"] == 1
        GenerationText.objects.update(previous_response_id="resp_1")
        assert replayed('has_word(text.input, "hello")').tally["not_evaluated"] == {Gap.CONTINUED: 1}

    def test_prompts_that_came_as_tokens_are_not_read(self) -> None:
        past({"model": "tiny", "prompt": [1, 2, 3]}, endpoint="completions")
        assert replayed('has_word(text.input, "x")').tally["not_evaluated"] == {Gap.TOKENS: 1}
        assert replayed("", actions=EMAILS).tally["not_evaluated"] == {Gap.TOKENS: 1}
        assert replayed("request.num_token_prompts == 1").tally["num_matched"] == 1

    def test_what_cannot_be_masked_is_a_failure(self) -> None:
        tools = [{"type": "function", "function": {"name": "f", "description": "ask bob@example.org"}}]
        past(chat("x", tools=tools))
        assert replayed("", actions=EMAILS).tally["num_text_matches"] == 1
        form = {"type": "object", "properties": {"bob@example.org": {"type": "string"}}}
        tools[0]["function"]["parameters"] = form
        past(chat("x", tools=tools), minutes=3)
        done = replayed("", actions=EMAILS).tally
        assert done["failures"] == {"something is found where it cannot be masked": 1}

    def test_what_cannot_be_read_any_more(self) -> None:
        past("[")
        past({"model": "tiny", "messages": "odd"})
        assert replayed('has_word(text.input, "x")').tally["not_evaluated"] == {Gap.UNREADABLE: 2}

    def test_the_end(self) -> None:
        past()
        past(is_stream=True)
        past(outcome="client_disconnect", status=499, finish_reason="")
        past(outcome="interrupted", status=500, finish_reason="")
        found = replayed('outcome.kind == "cancelled"', point=HookPoint.TERMINAL, actions=(Tag("t"),)).tally
        assert (found["num_matched"], found["num_by_condition"], sum(found["unasked"].values())) == (1, 3, 1)


class TestSlices:
    def start(self, **members: Any) -> HookReplay:
        policy = policy_for("p", **{"actions": DENY, **members})
        return replay_create(policy=policy, span="day", looks_at_texts=True, is_draft=False)

    def test_they_go_on_where_the_last_one_ended(self, monkeypatch) -> None:
        monkeypatch.setattr(replay_slices, "PAGE_RECORDS", 2)
        for minute in range(5):
            past(chat("x"), minutes=10 + minute)
        at = timezone.now() - timedelta(minutes=3)
        for _ in range(4):
            past(created_at=at)  # of one instant: told apart by their ids
        row = self.start()
        seen = []
        while replay_advance(replay_id=row.pk, slice_s=0):
            row.refresh_from_db()
            seen.append(row.tally["num_records"])
        row.refresh_from_db()
        assert seen == list(range(1, 10))
        assert (row.state, row.tally["num_matched"], row.num_total) == ("done", 9, 9)

    def test_one_worker_at_a_time_and_a_lost_slice_is_done_again(self) -> None:
        past()
        row = self.start()
        HookReplay.objects.filter(pk=row.pk).update(
            state="running", claimed_until=timezone.now() + timedelta(seconds=9), started_at=timezone.now()
        )
        assert not replay_advance(replay_id=row.pk)
        with pytest.raises(AlreadyTaken):
            replay_resume(replay_id=row.pk)
        later = timezone.now() + replays.SLICE_LEASE
        replays_tend(now=later)
        assert [("hooks.tasks.replay_advance", row.pk)] == _SENT
        replay_finish(replay_id=row.pk, told=lambda _: None)
        row.refresh_from_db()
        assert (row.state, row.tally["num_matched"], row.num_losses) == ("done", 1, 1)

    def test_where_the_database_was_away_a_slice_is_done_again(self, monkeypatch) -> None:
        past()
        row = self.start()

        def away(*_: Any) -> Any:
            raise OperationalError("the connection is closed")

        with monkeypatch.context() as patched, pytest.raises(OperationalError):
            patched.setattr(replay_slices, "_slice", away)
            replay_advance(replay_id=row.pk)
        replays_tend(now=timezone.now() + replays.SLICE_LEASE)
        done = replay_finish(replay_id=row.pk, told=lambda _: None)
        assert (done.state, done.tally["num_matched"], done.num_losses) == ("done", 1, 1)

    def test_one_that_kills_its_worker_ends_and_can_be_begun_again(self) -> None:
        row = self.start()
        for _ in range(replays.MAX_LOSSES):
            HookReplay.objects.filter(pk=row.pk).update(
                state="running", started_at=timezone.now(), claimed_until=timezone.now() - timedelta(1)
            )
            replays_tend()
        row.refresh_from_db()
        assert (row.state, row.reason) == ("failed", replays.LOST)
        assert replay_resume(replay_id=row.pk).state == "waiting"

    def test_what_is_taken_up_again_is_bounded_as_what_is_asked_for(self, monkeypatch) -> None:
        """Or whoever cancels and resumes has as many waiting, and as much time, as he likes."""
        row = self.start()
        past(minutes=5)
        past(minutes=6)
        assert replay_advance(replay_id=row.pk, slice_s=0)
        with pytest.raises(AlreadyTaken):
            replay_resume(replay_id=row.pk)
        HookReplay.objects.filter(pk=row.pk).update(seen_at=timezone.now() - replays.QUIET_TIME)
        assert replay_resume(replay_id=row.pk).state == "waiting"
        replay_cancel(replay_id=row.pk)
        monkeypatch.setattr(replays, "MAX_RUNNING", 0)
        monkeypatch.setattr(replays, "MAX_WAITING", 0)
        with pytest.raises(AlreadyTaken, match="run or wait"):
            replay_resume(replay_id=row.pk)
        assert HookReplay.objects.get(pk=row.pk).state == "cancelled"

    def test_a_late_worker_writes_nothing_over_the_next_ones(self, monkeypatch) -> None:
        past()
        row = self.start()
        whole = replay_slices._slice

        def slow(claimed: HookReplay, slice_s: float) -> dict[str, object]:
            HookReplay.objects.filter(pk=claimed.pk).update(turn=99, tally={"num_records": 7})
            return whole(claimed, slice_s)

        monkeypatch.setattr(replay_slices, "_slice", slow)
        replay_advance(replay_id=row.pk)
        row.refresh_from_db()
        assert (row.state, row.tally) == ("running", {"num_records": 7})

    def test_two_at_once_and_the_third_waits(self) -> None:
        rows = [self.start() for _ in range(3)]
        HookReplay.objects.filter(pk__in=[row.pk for row in rows[:2]]).update(
            state="running", started_at=timezone.now()
        )
        assert not replay_advance(replay_id=rows[2].pk)
        replay_cancel(replay_id=rows[0].pk)
        assert [("hooks.tasks.replay_advance", rows[2].pk)] == _SENT
        replay_advance(replay_id=rows[2].pk)
        rows[2].refresh_from_db()
        assert rows[2].state == "done"

    def test_no_more_than_so_many_wait(self) -> None:
        for _ in range(replays.MAX_RUNNING + replays.MAX_WAITING):
            self.start()
        with pytest.raises(AlreadyTaken):
            self.start()

    def test_cancelled_in_the_middle(self, monkeypatch) -> None:
        past()
        row = self.start()
        whole = replay_slices._slice

        def cancelled(claimed: HookReplay, slice_s: float) -> dict[str, object]:
            replay_cancel(replay_id=claimed.pk)
            return whole(claimed, slice_s)

        monkeypatch.setattr(replay_slices, "_slice", cancelled)
        assert not replay_advance(replay_id=row.pk)
        row.refresh_from_db()
        assert (row.state, row.tally["num_records"]) == ("cancelled", 1)

    def test_the_deadline_and_a_fault_of_ours(self, monkeypatch) -> None:
        row = self.start()
        HookReplay.objects.filter(pk=row.pk).update(
            state="running", started_at=timezone.now() - replays.MAX_TIME * 1.1
        )
        replays_tend()
        row.refresh_from_db()
        assert (row.state, row.reason) == ("failed", replays.TOO_LONG)
        row = self.start()

        def broken(*_: Any) -> Any:
            raise RuntimeError("my salary")

        monkeypatch.setattr(replay_slices, "_slice", broken)
        assert not replay_advance(replay_id=row.pk)
        row.refresh_from_db()
        assert row.state == "failed" and "salary" not in row.reason

    def test_kept_for_a_week(self) -> None:
        row = self.start()
        replays_tend(now=timezone.now() + replays.KEPT_TIME * 1.1)
        assert not HookReplay.objects.filter(pk=row.pk).exists()

    def test_the_statements_of_a_page_are_few_however_many_records(self) -> None:
        for minute in range(30):
            past(chat("x"), minutes=minute + 1)
        row = self.start(condition='has_word(text.input, "x")')
        with CaptureQueriesContext(connection) as queries:
            replay_finish(replay_id=row.pk, told=lambda _: None)
        assert len(queries) < 20


def signed_in(role: Role) -> Client:
    role_groups_ensure()
    user = User.objects.create_user(role.value, password="x")
    role_set(user=user, role=role)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


REPLAY = "/admin/hooks/hookpolicy/replay/"


class TestPages:
    def ask(self, client: Client, **fields: Any) -> Any:
        answer = client.post(REPLAY, {"replay-span": "day", **fields})
        assert answer.status_code == 302, answer.content.decode()
        row = HookReplay.objects.latest("pk")
        replay_finish(replay_id=row.pk, told=lambda _: None)
        return client.get(answer.url)

    def test_a_draft_is_replayed_and_the_history_says_who_asked_what(
        self, admin_client, django_capture_on_commit_callbacks
    ) -> None:
        past(chat("my salary"), username="bob")
        draft = policy_form(condition='has_word(text.input, "salary")', draft_of="")
        assert "Replay" in admin_client.post(REPLAY, draft).content.decode()
        with django_capture_on_commit_callbacks(execute=True):
            shown = self.ask(admin_client, **draft)
        assert len(_SENT) == 1
        body = shown.content.decode()
        assert shown.context["tally"].num_matched == 1 and "/console/requests/" in body
        told = AdministrativeChange.objects.latest("pk")
        assert (told.action, told.actor_name) == ("replayed", "admin")
        assert told.changes["condition"] == [None, 'has_word(text.input, "salary")']
        assert told.changes["kept texts"] == [None, "looked at"]

    def test_what_could_not_be_saved_or_replayed_is_said(self, admin_client, make) -> None:
        body = admin_client.post(REPLAY, policy_form(condition="nope(", draft_of="")).content.decode()
        assert "could not be saved" in body and "replay-span" not in body
        row = make("early", point=HookPoint.AFTER_PREFILL)
        body = admin_client.post(REPLAY, {"draft_of": row.pk}).content.decode()
        assert "how sure the model was" in body and "replay-span" not in body
        assert admin_client.post(REPLAY, {"draft_of": "9" * 30}).status_code == 404

    def test_an_auditor_learns_nothing_of_texts(self, make, admin_client) -> None:
        past(chat("my salary"))
        row = make("p", condition='has_word(text.input, "salary")', actions=DENY)
        auditor = signed_in(Role.AUDITOR)
        shown = self.ask(auditor, draft_of=row.pk)
        assert shown.context["tally"].not_evaluated == {Gap.CLOSED: 1}
        theirs = self.ask(admin_client, draft_of=row.pk)
        assert theirs.context["tally"].num_matched == 1
        assert auditor.get(theirs.request["PATH_INFO"]).status_code == 403
        listed = auditor.get("/admin/hooks/hookpolicy/replays/").context["rows"]
        assert [one.looks_at_texts for one in listed] == [False]

    def test_who_may_not_see_everybody_sees_no_replay(self, client) -> None:
        user = User.objects.create_user("half", password="x", is_staff=True)
        user.user_permissions.add(Permission.objects.get(codename="view_hookpolicy"))
        client.force_login(user)
        assert client.get("/admin/hooks/hookpolicy/replays/").status_code == 403

    def test_cancelled_and_gone_on_with(self, admin_client, make) -> None:
        row = make("p")
        admin_client.post(REPLAY, {"replay-span": "hour", "draft_of": row.pk})
        replay = HookReplay.objects.get()
        page = f"/admin/hooks/hookpolicy/replays/{replay.pk}/"
        assert 'data-open="yes"' in admin_client.get(page).content.decode()
        admin_client.post(page, {"do": "cancel"})
        body = admin_client.get(page).content.decode()
        assert "Cancelled" in body and 'value="resume"' in body
        admin_client.post(page, {"do": "resume"})
        HookReplay.objects.update(seen_at=timezone.now() - timedelta(minutes=2))
        assert "No worker has gone on with it" in admin_client.get(page).content.decode()


class TestOtherDoors:
    def test_the_command(self, make, capsys) -> None:
        past(chat("a@example.org"))
        past()
        make("masks", actions=EMAILS)
        call_command("policy_replay", "masks", "--span=hour", "--json")
        shown = json.loads(capsys.readouterr().out)
        assert (shown["num_records"], shown["num_matched"], shown["num_text_matches"]) == (2, 1, 1)
        call_command("policy_replay", "masks", "--without-texts")
        assert "2 not evaluated" in capsys.readouterr().out

    def test_the_api(self, make, admin_client) -> None:
        past(chat("my salary"), team_id=3)
        row = make("p", condition='has_word(text.input, "salary")', actions=DENY)
        base = f"/api/hook-policies/{row.pk}/replays"
        asked = admin_client.post(base, {"span": "hour"}, content_type="application/json")
        assert asked.status_code == 202, asked.content
        replay_id = asked.json()["id"]
        replay_finish(replay_id=replay_id, told=lambda _: None)
        shown = admin_client.get(f"{base}/{replay_id}").json()
        assert (shown["state"], shown["num_matched"], shown["teams"]) == ("done", 1, {"#3 (gone)": 1})
        assert len(shown["examples"]) == 1
        draft = {"name": "d", "point": "before_chat_completion", "actions": [{"type": "tag", "name": "t"}]}
        asked = admin_client.post(base, {"draft": draft}, content_type="application/json").json()
        assert (asked["is_draft"], asked["policy"]) == (True, "d")
        cancelled = admin_client.post(f"{base}/{asked['id']}/cancel", content_type="application/json")
        assert cancelled.json()["state"] == "cancelled"
        resumed = admin_client.post(f"{base}/{asked['id']}/resume", content_type="application/json")
        assert (resumed.status_code, resumed.json()["state"]) == (202, "waiting")
        assert [one["id"] for one in admin_client.get(base).json()["data"]] == [asked["id"], replay_id]
        bad = admin_client.post(
            base, {"draft": {**draft, "condition": "x("}}, content_type="application/json"
        )
        assert bad.status_code == 400
        assert admin_client.get(f"/api/hook-policies/{row.pk + 1}/replays/{replay_id}").status_code == 404

    def test_the_number_of_queries_does_not_grow_with_the_replays(
        self, make, make_webhook, admin_client
    ) -> None:
        past(chat("x"))
        policy, actions = make("p"), (CallWebhook(make_webhook().pk), Tag("t"))
        base = f"/api/hook-policies/{policy.pk}/replays"
        num_queries = []
        for num_replays in (1, 3):
            for _ in range(num_replays):
                replayed("", actions=actions)
            HookReplay.objects.update(policy_id=policy.pk)
            with CaptureQueriesContext(connection) as queries:
                data = admin_client.get(base).json()["data"]
            assert all(one["webhooks"] == {"review": 1} for one in data)
            num_queries.append(len(queries))
        assert num_queries[0] == num_queries[1]

    def test_a_key_opens_no_texts_and_without_usage_all_nobodys_numbers(
        self, make, client, admin_user
    ) -> None:
        past(chat("my salary"))
        row = make("p", condition='has_word(text.input, "salary") || true', actions=DENY)
        base = f"/api/hook-policies/{row.pk}/replays"
        with_texts = replayed("")
        HookReplay.objects.filter(pk=with_texts.pk).update(policy_id=row.pk)
        for scopes, num_examples in (((Scope.POLICIES,), 0), ((Scope.POLICIES, Scope.USAGE_ALL), 1)):
            _, minted = accounts.api_key_create(user=admin_user, name=str(scopes), scopes=frozenset(scopes))
            headers = {"authorization": f"Bearer {minted.plaintext}"}
            asked = client.post(base, {}, content_type="application/json", headers=headers).json()
            assert asked["looks_at_texts"] is False
            replay_finish(replay_id=asked["id"], told=lambda _: None)
            shown = client.get(f"{base}/{asked['id']}", headers=headers).json()
            assert (shown["num_matched"], len(shown["examples"])) == (1, num_examples)
            assert bool(shown["keys"]) == bool(num_examples)
            assert client.get(f"{base}/{with_texts.pk}", headers=headers).status_code == 404
            assert with_texts.pk not in [
                one["id"] for one in client.get(base, headers=headers).json()["data"]
            ]

    def test_erasing_takes_examples_and_names(self) -> None:
        user = accounts.user_ensure(username="eve")
        past(chat("x"), user_id=user.pk, username="eve")
        past(chat("x"), user_id=10**6)
        row = replayed("")
        HookReplay.objects.update(asked_by_id=user.pk, asked_by="eve")
        user_erase(user=user)
        row.refresh_from_db()
        assert row.asked_by == f"erased-{user.pk}"
        assert [one["user_id"] for one in row.tally["examples"]] == [10**6]
        assert "eve" not in json.dumps(row.tally)

    @pytest.mark.parametrize("is_cancelled", [False, True])
    def test_a_slice_under_way_brings_nobody_back_who_was_erased(
        self, monkeypatch, django_capture_on_commit_callbacks, is_cancelled
    ) -> None:
        user = accounts.user_ensure(username="eve")
        past(chat("x"), user_id=user.pk, username="eve")
        past(chat("x"), user_id=10**6)
        policy = policy_for("p", actions=DENY)
        row = replay_create(policy=policy, span="day", looks_at_texts=True, is_draft=False)
        whole = replay_slices._slice

        def erased_meanwhile(claimed: HookReplay, slice_s: float) -> dict[str, object]:
            changes = whole(claimed, slice_s)
            assert str(user.pk) in str(changes["tally"])
            if is_cancelled:
                replay_cancel(replay_id=claimed.pk)
            user_erase(user=user)
            return changes

        with monkeypatch.context() as patched, django_capture_on_commit_callbacks(execute=True):
            patched.setattr(replay_slices, "_slice", erased_meanwhile)
            assert not replay_advance(replay_id=row.pk)
        row.refresh_from_db()
        assert row.tally == {}
        # Done again at once, by whoever has time; what is counted is counted of everybody.
        assert ([] if is_cancelled else [("hooks.tasks.replay_advance", row.pk)]) == _SENT
        if is_cancelled:
            replay_resume(replay_id=row.pk)
        done = replay_finish(replay_id=row.pk, told=lambda _: None)
        assert (done.state, done.tally["num_matched"]) == ("done", 2)
        assert [one["user_id"] for one in done.tally["examples"]] == [10**6]

    def test_nor_one_that_begins_before_records_are_erased(self, monkeypatch) -> None:
        user = accounts.user_ensure(username="eve")
        past(chat("x"), user_id=user.pk, username="eve")
        policy = policy_for("p", actions=DENY)
        row = replay_create(policy=policy, span="day", looks_at_texts=True, is_draft=False)
        whole = RecordHolder.erase

        def after_a_slice(holder: RecordHolder, subject: DataSubject) -> int:
            replay_advance(replay_id=row.pk)
            return whole(holder, subject)

        monkeypatch.setattr(RecordHolder, "erase", after_a_slice)
        user_erase(user=user)
        row.refresh_from_db()
        assert (row.state, row.tally["num_matched"], row.tally["examples"]) == ("done", 1, [])


def test_a_broker_that_is_away_loses_no_replay_and_holds_nobody_up(monkeypatch, settings) -> None:
    from hooks import tasks
    from skippy_site.celery import app, task_send

    def broker(url: str) -> None:
        monkeypatch.setattr(app, "connection_for_write", lambda: app.connection_for_read(url))

    broker("redis://127.0.0.1:1/0")
    assert task_send("hooks.tasks.replay_advance", 1) is False
    broker("memory://")
    assert task_send("hooks.tasks.replay_advance", 7) is True
    with app.connection_for_read("memory://") as connection:
        message = connection.SimpleQueue(app.conf.task_default_queue).get(timeout=5)
        assert (message.headers["task"], message.payload[0]) == ("hooks.tasks.replay_advance", [7])
    assert settings.CELERY_BEAT_SCHEDULE["replays-tend"]["task"] == tasks.tend.name
    assert tasks.advance.name == "hooks.tasks.replay_advance"
