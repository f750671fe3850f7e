"""Django's own URLs: the console, the admin and the management API. /v1 is in inference/routing.py."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from accounts.sign_in.views import admin_door
from skippy_site.api_schema import schema

admin.site.index_title = "Administration"

handler400 = "skippy_site.api_errors.bad_request"
handler404 = "skippy_site.api_errors.page_not_found"
handler500 = "skippy_site.api_errors.server_error"

urlpatterns = [
    # One door for all: these two of the admin's pages lead to those of the console.
    path("admin/login/", admin_door),
    path("admin/password_change/", RedirectView.as_view(pattern_name="account_change_password")),
    path("admin/", admin.site.urls),
    path("console/", include("accounts.sign_in.urls")),
    path("console/", include("inference.dashboards.urls")),
    re_path(r"^api/schema/?$", schema),
    path("api/", include("inference.usage_api.urls")),
    path("api/", include("inference.models_api.urls")),
    path("api/", include("hooks.api.urls")),
    path("api/", include("accounts.api.urls")),
    path("favicon.ico", RedirectView.as_view(url=static("skippy/favicon.svg"), permanent=False)),
    path("", RedirectView.as_view(pattern_name="console:usage", permanent=False)),
]
