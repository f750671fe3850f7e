"""Who is calling and what they may use. Never imports inference."""
