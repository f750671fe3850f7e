"""Token ids to text and messages."""
