"""What happens now, for operators: one snapshot a second, and the socket that brings it to them."""
