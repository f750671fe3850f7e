"""Policies that administrators write to watch and steer generations. Never imports inference."""
