"""Tables of accounts. Users are Django's own; this adds the teams that they are in, the keys by which
programs sign in, the links by which people set their passwords, what an administrator decided about teams,
users and keys, what was used of it, and failures to sign in.

Columns and constraints only: `services` writes, `selectors` reads.
"""

from accounts.models.administrative_change import AdministrativeChange
from accounts.models.api_key import ApiKey
from accounts.models.limit_counter import LimitCounter, LimitProcess, LimitReservation
from accounts.models.password_link import PasswordLink
from accounts.models.role_group import RoleGroup
from accounts.models.sign_in_attempts import SignInAttempts
from accounts.models.team import Team
from accounts.models.user_policy import UserPolicy

__all__ = [
    "AdministrativeChange",
    "ApiKey",
    "LimitCounter",
    "LimitProcess",
    "LimitReservation",
    "PasswordLink",
    "RoleGroup",
    "SignInAttempts",
    "Team",
    "UserPolicy",
]
