"""Holter's judgement beside other people's rules, on one corpus and by one scorer."""
