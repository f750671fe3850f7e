import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.contracts.actions import CallWebhook, Deny, InjectText, Tag
from hooks.contracts.webhooks import WebhookAnswer
from hooks.webhooks.answer import answer_read
from hooks.webhooks.failures import CallFailure, FailureReason

ALLOWED = frozenset({Deny, Tag})


def test_no_body_and_no_actions_are_nothing_against_it():
    assert answer_read(b"", ALLOWED) == WebhookAnswer()
    assert answer_read(b'{"actions": []}', ALLOWED) == WebhookAnswer()


def test_what_is_not_allowed_is_named_and_the_rest_stays_in_order():
    body = orjson.dumps(
        {
            "actions": [
                {"type": "inject_text", "text": "x"},
                {"type": "tag", "name": "b"},
                {"type": "inject_text", "text": "y"},
                {"type": "deny", "message": "No."},
            ]
        }
    )

    assert answer_read(body, ALLOWED) == WebhookAnswer(
        (Tag("b"), Deny("No.")), ("inject_text", "inject_text")
    )
    assert answer_read(body, frozenset({InjectText})).refused == ("tag", "deny")
    assert answer_read(body, frozenset()).actions == ()


def test_one_action_that_is_not_understood_is_no_answer():
    with pytest.raises(CallFailure) as caught:
        answer_read(b'{"actions": [{"type": "deny", "message": "No."}, {"type": "deny"}]}', ALLOWED)
    assert caught.value.reason is FailureReason.NOT_UNDERSTOOD
    assert not caught.value.is_down and not caught.value.can_retry


def test_no_right_lets_a_webhook_call_another():
    body = b'{"actions": [{"type": "call_webhook", "webhook_id": 1}]}'
    with pytest.raises(CallFailure):
        answer_read(body, frozenset({CallWebhook}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def is_read_or_refused(body):
    try:
        answer_read(body, ALLOWED)
    except CallFailure as failure:
        return failure.reason is FailureReason.NOT_UNDERSTOOD
    return True


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    assert is_read_or_refused(body)


@given(st.sampled_from(["deny", "tag", "mask_text", "clamp_parameter", "consume_media", 3]), json_values)
def test_any_json_is_read_or_refused(kind, value):
    try:
        bodies = [
            orjson.dumps(one)
            for one in (
                value,
                {"actions": value},
                {"actions": [{"type": kind, "message": value, "name": value}]},
            )
        ]
    except TypeError:
        # What orjson does not write, as integers of more than 64 bits.
        return
    for body in bodies:
        assert is_read_or_refused(body)
