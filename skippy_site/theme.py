"""How the admin looks: Unfold with our name, our colours and our navigation. Everything is served by us."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from django.utils.functional import lazy

_static = lazy(static, str)

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Skippy",
    "SITE_HEADER": "Skippy",
    "SITE_SUBHEADER": "Managed inference",
    "SITE_SYMBOL": "bolt",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _static("skippy/favicon.svg")}],
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [_static("skippy/admin.css")],
    "SCRIPTS": [_static("skippy/admin.js")],
    # static/skippy/console.css has the same ones for the pages of our own.
    "COLORS": {
        "primary": {
            "50": "#eefbfa",
            "100": "#d3f4f1",
            "200": "#abe8e4",
            "300": "#73d5d0",
            "400": "#3bb9b5",
            "500": "#1f9d9b",
            "600": "#117a7a",
            "700": "#0f6465",
            "800": "#115051",
            "900": "#124344",
            "950": "#042829",
        },
    },
    "SIDEBAR": {"navigation": "skippy_site.navigation.sidebar"},
}
