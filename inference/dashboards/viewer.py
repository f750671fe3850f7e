"""Who looks at a page, and whose numbers he may see.

A user sees what was done with his own keys; who is staff and may view records sees everybody's, as with the
scope `usage_all` of the management API. Naming somebody else without that is refused, whether he exists or
not, and never quietly ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts.roles import sees_everybody, sees_texts_of_others
from inference.usage.selectors import UsageOwner


@dataclass(frozen=True, slots=True)
class Viewer:
    user_id: int
    sees_everybody: bool
    sees_texts_of_others: bool

    def owner(self, *, key_id: int | None, user_id: int | None, team_id: int | None) -> UsageOwner:
        """What is asked for, if he may see it. Raises PermissionDenied."""
        if self.sees_everybody:
            return UsageOwner(key_id=key_id, user_id=user_id, team_id=team_id)
        if team_id is not None or user_id not in (None, self.user_id):
            raise PermissionDenied("You may see your own usage only.")
        # Of somebody else's key there is nothing among his own.
        return UsageOwner(key_id=key_id, user_id=self.user_id)

    @property
    def whole(self) -> UsageOwner:
        """All that he may see."""
        return UsageOwner() if self.sees_everybody else UsageOwner(user_id=self.user_id)

    def sees_text_of(self, user_id: int) -> bool:
        return user_id == self.user_id or (self.sees_everybody and self.sees_texts_of_others)


def viewer_of(user: Any) -> Viewer:
    return Viewer(
        user_id=user.pk,
        sees_everybody=sees_everybody(user),
        sees_texts_of_others=sees_texts_of_others(user),
    )


View = Callable[..., HttpResponseBase]


def console_page(view: View) -> View:
    """A page for who has signed in, which no cache keeps; the view gets its `Viewer` behind the request."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return view(request, viewer_of(request.user), *args, **kwargs)

    guarded: View = require_safe(never_cache(login_required(shown)))
    return guarded
