"""The management API of models under /api/: views translate, services decide, selectors read."""
