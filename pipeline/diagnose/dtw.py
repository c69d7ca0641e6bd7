"""Dynamic time warping of sequences of events.

Libraries for it (dtaidistance, tslearn) take numbers, whose difference is the cost. Template identities are names:
two are the same or not, and how much it matters depends on whose they are.
"""

from __future__ import annotations

from collections.abc import Sequence

USUAL_COST = 0.25


def distance(one: Sequence[int], other: Sequence[int]) -> float:
    """Cost of the cheapest warping, as a share of the longer sequence; 0 where both are empty, 1 where one is.

    Where events differ it costs 1, or a quarter if both are negative: what jobs that succeeded say too comes and goes
    by itself. An event said several times in a row warps onto one.

    >>> distance([1, 2, 3], [1, 2, 2, 3]), distance([-1, 2, -3, -4], [-1, -9, -3, -4])
    (0.0, 0.25)
    """
    if not one or not other:
        return float(bool(one) or bool(other))
    last = [0.0] + [float("inf")] * len(other)
    for event in one:
        row, usual = [float("inf")], USUAL_COST if event < 0 else 1.0
        for at, against in enumerate(other, 1):
            cost = 0.0 if event == against else usual if against < 0 else 1.0
            row.append(cost + min(last[at], last[at - 1], row[-1]))
        last = row
    return last[-1] / max(len(one), len(other))
