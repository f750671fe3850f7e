"""Usage and records under /api/: everybody's with `usage_all`, one's own with `usage`."""
