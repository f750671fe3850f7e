"""Roles: who reaches what."""
