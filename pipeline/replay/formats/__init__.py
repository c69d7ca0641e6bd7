"""Readers, one a format: each tells whether a file is of its kind, and makes a table of it."""
