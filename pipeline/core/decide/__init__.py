"""What to do about an open incident, and whether it may be done."""
