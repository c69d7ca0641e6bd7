"""Measures what Holter promises, as ratios against something in the same run where there is something to compare."""
