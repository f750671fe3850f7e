"""Who may start, and when. Plain state and decisions with an injected clock."""
