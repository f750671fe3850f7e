"""Anthropic's wire: what POST /v1/messages accepts and sends. Pure functions and values."""
