"""Kinds of training whose logs look unlike a language model's: healthy runs, and the same runs hurt."""
