"""Statistics that are updated one value at a time."""
