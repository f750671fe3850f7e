"""Talking to a model in the browser: a page that speaks the same API as everybody else."""
