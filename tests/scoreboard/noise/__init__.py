"""Healthy noise of many kinds: how often a detector cries wolf, and what it still sees.

Each kind gives *factors*: a series whose median is about one, which multiplies the level of a run.
"""
