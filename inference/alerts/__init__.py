"""Tells operators, once, of what they should know while it lasts."""
