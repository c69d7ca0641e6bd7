"""The local stack: starts, watches, mends and stops the real processes on one machine."""
