from __future__ import annotations


class UnreadableLog(Exception):
    """A file cannot be replayed: not there, empty, or no log of a kind that is known.

    ``str`` is one line for people, without the file's name.
    """
