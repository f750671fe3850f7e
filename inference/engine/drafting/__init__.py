"""Tokens that are guessed before the model says them: where guesses come from, and whether they pay."""
