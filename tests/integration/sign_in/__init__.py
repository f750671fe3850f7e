"""Signing in: tries, second factors, providers."""
