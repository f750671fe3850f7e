"""The formats of pages in English."""
