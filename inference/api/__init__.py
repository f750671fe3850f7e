"""The doors under /v1 and the health endpoints, as Channels consumers."""
