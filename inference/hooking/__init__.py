"""Between what generates answers and the policies of administrators: requests as policies see them, and what
comes of what they say."""
