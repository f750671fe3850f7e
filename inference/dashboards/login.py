"""Signing in to the console: everybody with a password, staff or not."""

from __future__ import annotations

from django.contrib.auth.views import LoginView


class ConsoleLoginView(LoginView):
    """Django's, under our design; it says `no-store` already, and leads back to where one came from."""

    template_name = "console/login.html"
    redirect_authenticated_user = True
