"""What a policy would have done to requests that are over, by what is kept of them.

past_request  one record, as hooks need it
knowledge     which variables are known of it, and why others are not
judging       what the policy would have done
tally         all of that, counted
"""

from hooks.replaying.judging import ReplayJudge, Verdict, point_refusal
from hooks.replaying.knowledge import Gap
from hooks.replaying.past_request import PastRequest, PastText, RecordPoint
from hooks.replaying.tally import Example, Tally

__all__ = [
    "Example",
    "Gap",
    "PastRequest",
    "PastText",
    "RecordPoint",
    "ReplayJudge",
    "Tally",
    "Verdict",
    "point_refusal",
]
