from __future__ import annotations


class UnusableLogs(ValueError):
    """Nothing can be said of a folder; ``str`` is one line for people that names it and what would do."""


class BadPatterns(ValueError):
    """A file of patterns cannot be used; ``str`` is one line for people."""


class MissingLibrary(RuntimeError):
    """A library of the extra ``diagnose`` is not installed; ``str`` says how to install it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it needs {name}, which is not installed: pip install 'holter[diagnose]'")
