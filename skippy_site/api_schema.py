"""The OpenAPI document of the management API: what each operation takes and gives, errors included.

It needs no key, since it holds nothing that the documentation does not; it is made once in each process,
since making it takes a tenth of a second and anybody may ask.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from accounts.scopes import scopes_sorted

ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": "string", "nullable": True},
                "code": {"type": "string", "nullable": True},
            },
        }
    },
}


class ManagementSchema(AutoSchema):
    """Adds to each operation its scopes and the one error answer."""

    def get_description(self) -> str:
        """The views' docstrings are for those who read the code."""
        return ""

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        operation = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        scopes = getattr(self.view, "scopes", {}).get(self.method, frozenset())
        names = " or ".join(f"`{name}`" for name in scopes_sorted(scopes))
        operation["description"] = f"{operation.get('description', '')} Scope: {names}.".strip()
        operation["responses"]["default"] = {
            "description": "The error object",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter["schema"] = {"type": "integer"}  # a pattern's group looks like text
        return operation


class ApiKeyScheme(OpenApiAuthenticationExtension):
    target_class = "accounts.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "sk-skippy-…, with the scope needed"}


class AdminSessionScheme(OpenApiAuthenticationExtension):
    target_class = "accounts.api.authentication.AdminSession"
    name = "adminSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "Signed in to the admin; changes need the header X-CSRFToken",
        }


def add_error_schema(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular."""
    result["components"]["schemas"]["Error"] = ERROR_SCHEMA
    return result


@cache
def schema_bytes() -> bytes:
    return json.dumps(SchemaGenerator().get_schema(request=None, public=True)).encode()


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    return HttpResponse(schema_bytes(), content_type="application/vnd.oai.openapi+json")
