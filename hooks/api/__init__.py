"""The management API of policies and webhooks under /api/."""
