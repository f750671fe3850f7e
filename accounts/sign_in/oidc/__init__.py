"""Signing in by a provider (OpenID Connect): what it says is checked here, and whom it may send."""
