"""What a policy must be before it is saved, with the field at fault in each refusal.

Nothing that was saved is found to be wrong when it is obeyed: every door comes through here.
"""

from __future__ import annotations

import math
import re

from django.core.exceptions import ValidationError

from accounts.names import validate_name
from hooks.action_form import action_written, actions_read
from hooks.action_form.window import window_read, window_written
from hooks.applying.parameters import parameter_name
from hooks.conditions import condition_check
from hooks.contracts.actions import ClampParameter, SetParameter
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import MAX_DEADLINE_S, MAX_HELD_CHARS, Policy
from hooks.contracts.refusals import InvalidField
from hooks.contracts.view import ParameterValue
from hooks.models.policy import MAX_MODEL_ID_LENGTH, MAX_NAME_LENGTH, MAX_ORDER, MAX_SCOPE_IDS
from hooks.services.parameter_rules import parameter_rules

MIN_DEADLINE_S = 0.001
MAX_DESCRIPTION_CHARS = 4000
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")


def check_policy(policy: Policy, *, description: str) -> None:
    """Raises InvalidField."""
    check_name(policy.name)
    check_description(description)
    if not 0 <= policy.order <= MAX_ORDER:
        raise InvalidField("order", f"it must be between 0 and {MAX_ORDER}")
    if not policy.actions:
        raise InvalidField("actions", "at least one is needed")
    # Once more, because the point may be another one than when they were read.
    actions_read([action_written(action) for action in policy.actions], point=policy.point)
    check_parameters(policy)
    window_read(window_written(policy.window))
    if not MIN_DEADLINE_S <= policy.deadline_s <= MAX_DEADLINE_S or math.isnan(policy.deadline_s):
        raise InvalidField("deadline_s", f"it must be between {MIN_DEADLINE_S} and {MAX_DEADLINE_S:.0f}")
    if not 0 <= policy.held_chars <= MAX_HELD_CHARS:
        raise InvalidField("held_chars", f"it must be between 0 and {MAX_HELD_CHARS}")
    check_scope(policy)
    check_condition(policy.condition, point=policy.point)


def check_name(name: str) -> None:
    try:
        validate_name(name, max_length=MAX_NAME_LENGTH)
    except ValidationError as problem:
        sentence = problem.messages[0].rstrip(".")
        raise InvalidField("name", f"{sentence[:1].lower()}{sentence[1:]}") from None
    if name != name.strip():
        raise InvalidField("name", "it must not begin or end with spaces")


def check_description(description: str) -> None:
    if len(description) > MAX_DESCRIPTION_CHARS:
        raise InvalidField("description", f"it has at most {MAX_DESCRIPTION_CHARS} characters")
    if _UNWRITABLE.search(description):
        raise InvalidField("description", "it has characters that cannot be kept")


def check_scope(policy: Policy) -> None:
    """Whether it could be; whom there is is said by the site."""
    for field, ids in (
        ("scope.team_ids", policy.scope.team_ids),
        ("scope.user_ids", policy.scope.user_ids),
        ("scope.key_ids", policy.scope.key_ids),
        ("scope.models", policy.scope.models),
    ):
        if len(ids) > MAX_SCOPE_IDS:
            raise InvalidField(field, f"it has at most {MAX_SCOPE_IDS} entries")
    for model in policy.scope.models:
        if not model or len(model) > MAX_MODEL_ID_LENGTH or _UNWRITABLE.search(model):
            raise InvalidField("scope.models", "an entry is no model's id")


def check_parameters(policy: Policy) -> None:
    """Whether the site could serve a request with what the actions would put into it."""
    fault_of = parameter_rules()
    for place, action in enumerate(policy.actions):
        if not isinstance(action, SetParameter | ClampParameter):
            continue
        values: dict[str, ParameterValue] = (
            {"value": action.value}
            if isinstance(action, SetParameter)
            else {"minimum": action.minimum, "maximum": action.maximum}
        )
        for field, value in values.items():
            fault = "" if value is None else fault_of(parameter_name(action.name), value)
            if fault:
                raise InvalidField(f"actions[{place}].{field}", f"no client could send this: {fault}")


def check_condition(text: str, *, point: HookPoint) -> None:
    """Whether it is an expression of type bool over what there is at the point. Raises InvalidField, for the
    first thing that is wrong with it."""
    if _UNWRITABLE.search(text):
        raise InvalidField("condition", "it has characters that cannot be kept")
    for problem in condition_check(text, point):
        place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
        raise InvalidField("condition", f"{place}{problem.message.rstrip('.')}")
