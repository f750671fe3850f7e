"""Asyncio pieces between the engine's events and the wire."""
