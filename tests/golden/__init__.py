"""Transcripts of all families of models."""
