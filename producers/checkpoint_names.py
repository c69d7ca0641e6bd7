"""What a checkpoint is called: by the attempt and the step that made it."""

from __future__ import annotations


def checkpoint_name(attempt: int, step: int) -> str:
    """
    >>> checkpoint_name(1700000000000, 50)
    '1700000000000-000000050'
    """
    return f"{attempt}-{step:09d}"


def numbers_of(name: str) -> tuple[int, int]:
    """Attempt and step of a name that :func:`checkpoint_name` made; zeros for any other.

    >>> numbers_of(checkpoint_name(3, 50)), numbers_of("elsewhere")
    ((3, 50), (0, 0))
    """
    attempt, _, step = name.partition("-")
    return (int(attempt), int(step)) if attempt.isdigit() and step.isdigit() else (0, 0)
