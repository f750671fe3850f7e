"""The whole story of a request, told in one place."""
