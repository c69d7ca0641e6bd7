"""Judging and recording runs inside one process: for local mode, replay and tests."""
