"""Composition root: settings, servers, supervisor. May import anything; imported by nothing."""
