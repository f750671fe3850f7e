"""Models in this process: loaded, served, drained and unloaded, each with an engine of its own."""
