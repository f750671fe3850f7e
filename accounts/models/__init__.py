"""Tables of accounts. Users are Django's own; this adds the teams that they are in, the keys by which
programs sign in, what an administrator decided about teams, users and keys, what was used of it, and
failures to sign in.

Columns and constraints only: `services` writes, `selectors` reads.
"""

from accounts.models.administrative_change import AdministrativeChange
from accounts.models.api_key import ApiKey
from accounts.models.limit_counter import LimitCounter, LimitProcess, LimitReservation
from accounts.models.sign_in_attempts import SignInAttempts
from accounts.models.team import Team
from accounts.models.user_policy import UserPolicy

__all__ = [
    "AdministrativeChange",
    "ApiKey",
    "LimitCounter",
    "LimitProcess",
    "LimitReservation",
    "SignInAttempts",
    "Team",
    "UserPolicy",
]
