"""Detectors: each looks at one metric, step by step, and says what it finds out of the ordinary."""
