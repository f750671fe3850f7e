"""Messages to prompt text to token ids."""
