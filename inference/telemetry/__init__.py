"""What is kept and shown of what happened."""
