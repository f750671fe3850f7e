"""Which scopes open an operation."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.api.caller import ApiCaller
from accounts.scopes import scopes_sorted


class HasScope(BasePermission):
    """One of the scopes that the view names for the method; a method without an entry is refused to all."""

    def has_permission(self, request: Request, view: Any) -> bool:
        caller: ApiCaller | None = getattr(request, "api_caller", None)
        if caller is None:
            return False
        method = "GET" if request.method == "HEAD" else request.method
        wanted = view.scopes.get(method)
        if wanted is None:
            return method == "OPTIONS" or method not in view.allowed_methods  # a 405, which says more
        names = " or ".join(f"`{name}`" for name in scopes_sorted(wanted))
        self.message = f"This needs the scope {names}."
        return bool(wanted & caller.scopes)
