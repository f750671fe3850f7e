"""Records and events added up by hours, read, kept for a while, and forgotten."""
