"""Runs that the project makes itself: simulated, published numbers, and real ones trained on the spot."""
