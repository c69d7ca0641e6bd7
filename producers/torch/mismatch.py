"""The one thing that can be wrong with an undamaged checkpoint."""

from __future__ import annotations


class Mismatch(Exception):
    """A state that does not fit these objects; the message says where."""
