"""The constants that are searched over, by dotted path into ``SignalSettings``, and the values that are tried.

Values are multiples of what is shipped, far enough apart to change what is seen: the search says whether the structure
carries a result or its exact constants do.
"""

from __future__ import annotations

from holter.pipeline.core.signals import SignalSettings
from tests.scoreboard.search.candidates import Space
from tests.scoreboard.search.paths import Value, leaf_paths, value_at

FACTORS = (0.7, 0.85, 1.0, 1.2, 1.4)
NOT_SEARCHED = ("update_",)
"""How often an open incident is spoken of decides nothing."""


def space_around(settings: SignalSettings) -> Space:
    """Five values for every number that decides something."""
    return {
        path: values_around(value_at(settings, path))
        for path in leaf_paths(settings)
        if not path.startswith(NOT_SEARCHED) and len(values_around(value_at(settings, path))) > 1
    }


def values_around(value: Value) -> tuple[Value, ...]:
    """Smallest first; a count stays one, and at least 1.

    >>> values_around(3)
    (2, 3, 4)
    >>> values_around(0.5)
    (0.35, 0.425, 0.5, 0.6, 0.7)
    """
    if isinstance(value, bool):
        return (False, True)
    if isinstance(value, int):
        return tuple(sorted({max(1, round(value * factor)) for factor in FACTORS}))
    return tuple(sorted({value * factor for factor in FACTORS}))
