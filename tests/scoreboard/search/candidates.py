"""Random choices from a space, and their neighbours."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.scoreboard.search.paths import Choice, Value

Space = Mapping[str, Sequence[Value]]
"""The values to try for each dotted path."""


class Candidate(NamedTuple):
    """Hashable: pairs of path and value in the order of the space."""

    values: tuple[tuple[str, Value], ...]

    @property
    def choice(self) -> Choice:
        return dict(self.values)


def at_random(space: Space, num_candidates: int, seed: int) -> list[Candidate]:
    """Each value drawn evenly and on its own (Bergstra and Bengio 2012)."""
    source = random.Random(seed)
    return [
        Candidate(tuple((path, source.choice(list(values))) for path, values in space.items()))
        for _ in range(num_candidates)
    ]


def neighbours(space: Space, candidate: Candidate, num_neighbours: int, num_changed: int = 4) -> list[Candidate]:
    """Copies with some values drawn again; the same candidate has the same neighbours."""
    source = random.Random(repr(candidate.values))
    found = []
    for _ in range(num_neighbours):
        choice = dict(candidate.values)
        for path in source.sample(list(space), min(num_changed, len(space))):
            choice[path] = source.choice(list(space[path]))
        found.append(Candidate(tuple(choice.items())))
    return found
