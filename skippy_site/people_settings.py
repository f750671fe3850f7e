"""The settings of people's accounts: how long what is handed out to them is good for.

A part of the environment (env.py), in a file of its own because there are many.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class PeopleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """See the module."""

    invitation_days: Annotated[
        int, Meta(ge=1, le=90, description="how long an invitation may be used to set a first password")
    ] = 7
    password_link_hours: Annotated[
        int, Meta(ge=1, le=720, description="how long a link for a new password may be used")
    ] = 24
