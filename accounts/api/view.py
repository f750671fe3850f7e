"""What all views of the management API share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rest_framework.views import APIView

from accounts.api.caller import ApiCaller
from accounts.api.permissions import HasScope
from accounts.scopes import Scope


class ManagementView(APIView):
    """`scopes` says for each method which scopes open it (any one of them)."""

    permission_classes: ClassVar = [HasScope]
    scopes: ClassVar[Mapping[str, frozenset[Scope]]] = {}

    @property
    def caller(self) -> ApiCaller:
        caller: ApiCaller = self.request.api_caller
        return caller
