"""The Responses API: a conversation as a list of items, of which answers are made too."""
