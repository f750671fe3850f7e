"""Pictures and sounds from a request to what the engine computes: fetched, checked, decoded, encoded."""
