"""Serves language models through the OpenAI API: admission, engine, prompting, wire and doors."""
