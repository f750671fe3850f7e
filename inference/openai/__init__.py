"""The wire: OpenAI's names, what we accept, what we send. Pure functions and values."""
