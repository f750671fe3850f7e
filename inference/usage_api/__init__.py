"""Requests under /api/, ended and running: everybody's with `usage_all`, one's own with `usage`."""
