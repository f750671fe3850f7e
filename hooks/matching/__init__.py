"""Finding words, patterns and personal numbers in text, and what stands in their place afterwards."""
