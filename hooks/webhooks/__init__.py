"""Calls to webhooks: signed, held to their rights, and harmless to everybody but their own request."""
