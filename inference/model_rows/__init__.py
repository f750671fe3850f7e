"""Models as rows: written by services, read by selectors, and given to the process that serves them."""
