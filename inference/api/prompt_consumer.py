"""Doors that work on prompts and generate nothing: who may generate may use them, and no record is left."""

from __future__ import annotations

from typing import Any

from accounts.scopes import Scope
from inference.api.consumer import ApiConsumer
from inference.runtime import Runtime


class PromptConsumer(ApiConsumer):
    """POST only. Subclasses write `answer`."""

    methods = ("POST",)
    needs_scope = Scope.INFERENCE

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime
