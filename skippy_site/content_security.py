"""What pages may load and run: nothing that we do not serve, and no script that stands in a page.

Pages of our own have no inline scripts and no inline styles; a page that needs one says so with
`request.csp_nonce`. The admin's theme evaluates the expressions in its templates (Alpine) and writes its
colours into each page, so there, and only there, that is allowed.
"""

from __future__ import annotations

from typing import Any

from csp.constants import NONCE, NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from csp.middleware import CSPMiddleware, PolicyParts
from django.http import HttpRequest
from django.http.response import HttpResponseBase

ADMIN = "/admin/"

POLICY: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}
_IN_THE_ADMIN = {"script-src": [SELF, UNSAFE_EVAL], "style-src": [SELF, UNSAFE_INLINE]}


class ContentSecurityMiddleware(CSPMiddleware):
    """django-csp's, which knows that the admin is another place."""

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if request.path.startswith(ADMIN):
            parts.replace = {**_IN_THE_ADMIN, **(parts.replace or {})}
        return parts
