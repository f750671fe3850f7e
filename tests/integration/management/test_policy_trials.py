"""/api/hook-policies/try: a pasted request, on every wire, by anybody, with what is saved and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from accounts import services as accounts
from accounts.scopes import Scope
from hooks.models import HookPolicy
from inference.model_rows.selectors import model_row_named
from inference.models import ModelName, ModelRow
from tests.integration.management.conftest import Program, error_of

pytestmark = pytest.mark.django_db

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a b\u200bomb"}], "max_tokens": 900}
DENY = {"type": "deny", "message": "Not here.", "status": 451}


@pytest.fixture
def keeper(program) -> Program:
    return program("keeper", frozenset({Scope.POLICIES}))


def saved(keeper: Program, name: str, *actions: dict[str, Any], **members: Any) -> int:
    body = {"name": name, "point": "before_chat_completion", "actions": list(actions), **members}
    response = keeper.post("/hook-policies", body)
    assert response.status_code == 201, response.content
    return response.json()["id"]


def tried(keeper: Program, **members: Any) -> dict[str, Any]:
    response = keeper.post("/hook-policies/try", {"body": CHAT, **members})
    assert response.status_code == 200, response.content
    return response.json()


def test_what_is_on_is_tried_and_what_is_off_only_where_it_is_named(keeper) -> None:
    condition = 'has_word(text.folded, "bomb")'
    clamp = saved(
        keeper, "clamp", {"type": "clamp_parameter", "name": "max_tokens", "maximum": 10}, mode="enforce"
    )
    block = saved(keeper, "block", DENY, condition=condition, order=200)

    shown = tried(keeper)
    assert [(one["policy"], one["result"], one["actions"]) for one in shown["firings"]] == [
        ("clamp", "applied", ["clamp_parameter"])
    ]
    assert shown["firings"][0]["policy_id"] == clamp
    assert shown["effective"]["parameters"]["max_tokens"] == 10
    assert shown["effective"]["messages"][0]["parts"] == [{"type": "text", "text": "a b\u200bomb"}]

    shown = tried(keeper, enforce=[block])
    assert shown["denial"] == {
        "status": 451,
        "code": "permission_denied",
        "message": "Not here.",
        "policy": "block",
    }
    assert shown["effective"] is None
    assert HookPolicy.objects.get(pk=block).mode == "off"
    assert error_of(keeper.post("/hook-policies/try", {"body": CHAT, "enforce": [10**9]}))[2] == "enforce"


def test_a_draft_is_tried_before_it_is_saved_and_in_the_place_of_what_it_replaces(keeper) -> None:
    old = saved(keeper, "p", DENY, mode="enforce")
    draft = {
        "name": "p",
        "point": "before_chat_completion",
        "actions": [{"type": "add_system_prompt", "text": "Be brief."}],
    }

    assert tried(keeper, draft=draft)["denial"] is not None
    shown = tried(keeper, draft=draft, replaces=old)

    assert shown["denial"] is None
    first = shown["effective"]["messages"][0]
    assert (first["role"], first["is_added"], first["parts"][0]["text"]) == ("system", True, "Be brief.")
    assert [one["policy_id"] for one in shown["firings"]] == [0]
    assert HookPolicy.objects.count() == 1
    for param, change in (
        ("draft.condition", {"condition": "text.contains("}),
        ("draft.actions[0].type", {"actions": [{"type": "stop_generation"}]}),
        ("draft.name", {"name": "a\u202eb"}),
        ("draft.colour", {"colour": "red"}),
    ):
        refused = keeper.post("/hook-policies/try", {"body": CHAT, "draft": {**draft, **change}})
        assert error_of(refused)[::2] == (400, param)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat.completions", CHAT),
        ("completions", {"model": "tiny", "prompt": "a bomb"}),
        ("responses", {"model": "tiny", "input": "a bomb"}),
        ("messages", {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "a bomb"}]}),
    ],
)
def test_on_every_wire(keeper, endpoint, body) -> None:
    condition = f'has_word(text.folded, "bomb") && request.endpoint == "{endpoint}"'
    saved(keeper, "block", DENY, condition=condition, mode="enforce")

    assert tried(keeper, endpoint=endpoint, body=body)["denial"]["status"] == 451


def test_whoever_is_named_would_send_it(keeper) -> None:
    team = accounts.team_create(name="interns")
    user = accounts.user_ensure(username="ann")
    accounts.user_team_set(user=user, team=team)
    key, _ = accounts.api_key_create(user=user, name="laptop")
    saved(keeper, "team", DENY, mode="enforce", scope={"team_ids": [team.pk]})
    saved(
        keeper, "name", {"type": "tag", "name": "own"}, mode="enforce", condition='principal.user == "keeper"'
    )

    own = tried(keeper)
    assert (own["denial"], own["tags"]) == (None, {"own": ""})
    for caller in ({"user_id": user.pk}, {"key_id": key.pk}):
        assert tried(keeper, caller=caller)["denial"]["policy"] == "team"
    for caller in ({"user_id": 10**9}, {"key_id": 10**9}):
        refused = keeper.post("/hook-policies/try", {"body": CHAT, "caller": caller})
        assert error_of(refused)[2] == f"caller.{next(iter(caller))}"


def test_a_model_is_meant_by_its_alias_too(keeper) -> None:
    row = ModelRow.objects.create(model_id="org/large", source="/m.gguf")
    for name in ("org/large", "tiny"):
        ModelName.objects.create(name=name, row=row)
    assert model_row_named("tiny").pk == row.pk
    saved(keeper, "large", DENY, mode="enforce", scope={"models": ["org/large"]})

    assert tried(keeper)["denial"] is not None
    assert tried(keeper, body={**CHAT, "model": "other"})["denial"] is None


def test_the_points_of_a_generation(keeper) -> None:
    webhook = keeper.post(
        "/webhooks", {"name": "w", "url": "https://hook.example/", "secret": "a-secret-of-some-length"}
    ).json()["id"]
    saved(
        keeper,
        "unsure",
        {"type": "inject_text", "text": "Hm.", "is_shown": True},
        {"type": "call_webhook", "webhook_id": webhook},
        point="after_prefill",
        condition="signals.entropy > 3.0",
        mode="enforce",
    )
    saved(
        keeper,
        "repeats",
        {"type": "stop_generation", "reason": "stop"},
        point="mid_generation",
        condition="signals.num_repetitions > 3",
        mode="enforce",
    )
    saved(
        keeper,
        "mask",
        {"type": "mask_text", "targets": ["content", "arguments"], "kinds": ["email"]},
        point="before_output",
        mode="enforce",
    )
    saved(
        keeper,
        "end",
        {"type": "tag", "name": "ended"},
        point="terminal",
        condition='outcome.kind == "cancelled"',
        mode="observe",
    )

    shown = tried(
        keeper,
        signals={"entropy": 4.0, "margin": 0.1},
        output={"content": "ask a@example.com", "arguments": ['{"to":"a@example.com"}']},
        outcome={"kind": "cancelled", "status": 499},
    )

    assert shown["injections"] == [{"text": "Hm.", "is_shown": True}]
    assert shown["webhook_ids"] == [webhook]
    assert shown["output"] == {"content": "ask ***", "reasoning": "", "arguments": ['{"to":"***"}']}
    assert [(one["policy"], one["result"]) for one in shown["firings"]] == [
        ("unsure", "applied"),
        ("mask", "applied"),
        ("end", "observed"),
    ]
    assert tried(keeper, window={"num_repetitions": 9})["stop"] == "stop"


@pytest.mark.parametrize(
    ("param", "members"),
    [
        ("body", {"body": "text"}),
        ("body.messages", {"body": {"model": "tiny"}}),
        ("body.model", {"body": {"messages": [{"role": "user", "content": "x"}]}}),
        ("body.temperature", {"body": {**CHAT, "temperature": "hot"}}),
        ("endpoint", {"endpoint": "embeddings"}),
        ("signals.margin", {"signals": {"entropy": 1.0}}),
        ("window.other", {"window": {"other": 1}}),
        ("output.arguments", {"output": {"arguments": "x"}}),
        ("outcome.kind", {"outcome": {"kind": "lost"}}),
        ("other", {"other": 1}),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(keeper, param, members) -> None:
    assert error_of(keeper.post("/hook-policies/try", {"body": CHAT, **members}))[::2] == (400, param)


def test_nothing_of_it_is_kept_or_logged(keeper, caplog) -> None:
    saved(keeper, "p", DENY, mode="enforce")
    body = {"model": "tiny", "messages": [{"role": "user", "content": "s3cret words"}]}
    tried(keeper, body=body)
    keeper.post("/hook-policies/try", {"body": {**body, "temperature": "s3cret"}})
    assert "s3cret" not in caplog.text


def test_half_of_a_surrogate_pair_and_nul_are_no_fault_of_ours(keeper) -> None:
    saved(keeper, "p", {"type": "tag", "name": "t"}, mode="enforce", condition='text.input.contains("x")')
    for text in (r"\ud800 x", r"\u0000 x"):
        raw = b'{"body": {"model": "tiny", "messages": [{"role": "user", "content": "%s"}]}}' % text.encode()
        assert keeper.post("/hook-policies/try", raw).status_code in (200, 400)
