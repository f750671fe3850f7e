"""The management API of accounts under /api/: views translate, services decide, selectors read."""
