"""Actions as JSON: of policies' rows, of the management API, of the admin, and of what webhooks answer.

value_fields  one value: what it may be     forms  the fields of each action     reading  all of it, and back
"""

from hooks.action_form.forms import action_schema
from hooks.action_form.reading import MAX_ACTIONS, action_read, action_type, action_written, actions_read

__all__ = ["MAX_ACTIONS", "action_read", "action_schema", "action_type", "action_written", "actions_read"]
