"""Settings of Django REST framework and of its OpenAPI document, for `settings.py`."""

from __future__ import annotations

from typing import Any

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounts.api.authentication.ApiKeyAuthentication",
        "accounts.api.authentication.AdminSession",
    ],
    # A view that forgot to say whom it is for is for nobody.
    "DEFAULT_PERMISSION_CLASSES": ["accounts.api.permissions.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["skippy_site.api_reading.BoundedJsonParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "skippy_site.api_reading.JsonAlways",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "skippy_site.api_schema.ManagementSchema",
    "EXCEPTION_HANDLER": "skippy_site.api_errors.exception_handler",
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Skippy management API",
    "DESCRIPTION": "Users, teams, keys, limits, models, policies, usage and the history of changes.",
    "VERSION": "1",
    "OAS_VERSION": "3.0.3",
    "SCHEMA_PATH_PREFIX": "/api/",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_ADD_EXPLICIT_BLANK_NULL_CHOICE": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "skippy_site.api_schema.add_error_schema",
    ],
}
