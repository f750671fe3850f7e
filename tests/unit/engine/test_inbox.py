from __future__ import annotations

import pytest

from inference.domain.admission import Submission
from inference.domain.backend import HoldReason
from inference.engine.inbox import HoldOrder, Inbox, InjectionOrder
from tests.unit.engine.scripted_engine_parts import RecordingSink, make_request


def make_submission() -> Submission:
    return Submission(make_request(), RecordingSink(), 0.0)


def test_what_was_cancelled_is_taken_once() -> None:
    inbox, first, second = Inbox(), make_submission(), make_submission()
    inbox.cancel(first)
    inbox.cancel(second)
    assert list(inbox.take_cancelled()) == [first, second]
    assert list(inbox.take_cancelled()) == []


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("+r", "r"),
        ("+r +r -r", ""),
        ("+r +h -r", "h"),
        ("-r +r", "r"),
        ("-r -h", ""),
        ("+h -r +r -h -r", ""),
    ],
)
def test_reasons_are_counted_once_each_and_in_order(asked: str, left: str) -> None:
    reasons = {"r": HoldReason.READER, "h": HoldReason.HOOK}
    inbox, submission = Inbox(), make_submission()
    for word in asked.split():
        (inbox.hold if word[0] == "+" else inbox.resume)(submission, reasons[word[1]])
    assert submission.holds == set()
    assert [one for one, _ in inbox.take_orders()] == [submission] * len(asked.split())
    assert submission.holds == {reasons[letter] for letter in left}


def test_its_description_counts_what_is_in_it() -> None:
    inbox = Inbox()
    inbox.cancel(make_submission())
    inbox.hold(make_submission(), HoldReason.HOOK)
    assert repr(inbox) == "<Inbox 1 cancelled, 1 orders>"


def test_what_is_injected_comes_before_the_resuming_that_was_asked_behind_it() -> None:
    inbox, submission = Inbox(), make_submission()
    inbox.inject(submission, (5, 6))
    inbox.resume(submission, HoldReason.HOOK)
    inbox.inject(submission, (7,))
    assert [order for _, order in inbox.take_orders()] == [
        InjectionOrder((5, 6)),
        HoldOrder(HoldReason.HOOK, is_held=False),
        InjectionOrder((7,)),
    ]
    assert list(inbox.take_orders()) == []
