"""How high a cumulative sum of a run's own scores climbs by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec import Struct

FROM = 3.0
"""A cumulative sum above this is an excursion, whose peak is remembered."""
_MEMORY_RECORDS = 8_000
_FORGETTING_A_BLOCK = 0.999
_MOST_EXCESS = 15.0
"""What one excursion counts for at most: an incident that was not seen must not blind the run."""


@dataclass(frozen=True)
class ExcursionSettings:
    limit: float = 8.0
    """The least that a cumulative sum must reach."""
    rate: float = 1e-6
    """The share of records at which a sum of this run's own noise reaches its limit."""
    prior_count: float = 3.0
    prior_excess: float = 1.5
    """So many excursions, that much above, stand in until the run has shown its own."""


class ExcursionState(Struct):
    count: float = 0.0
    excess: float = 0.0


class Excursions:
    """Peaks of a cumulative sum have an exponential tail (Cramér 1930); two numbers describe it.

    >>> calm, restless = (Excursions(ExcursionSettings()) for _ in range(2))
    >>> for _ in range(40):
    ...     calm.note(3.5)
    ...     restless.note(11.0)
    >>> round(calm.limit(4000), 1), round(restless.limit(4000), 1)
    (8.3, 72.7)
    """

    __slots__ = ("_settings", "state")

    def __init__(self, settings: ExcursionSettings, state: ExcursionState | None = None) -> None:
        self._settings = settings
        self.state = state or ExcursionState()

    def note(self, peak: float) -> None:
        """A sum that has run out had this peak."""
        self.state.count += 1.0
        self.state.excess += min(peak - FROM, _MOST_EXCESS)

    def fade(self) -> None:
        self.state.count *= _FORGETTING_A_BLOCK
        self.state.excess *= _FORGETTING_A_BLOCK

    def limit(self, num_records: int) -> float:
        """The height that one record in 1 / rate reaches."""
        settings, state = self._settings, self.state
        count = state.count + settings.prior_count
        mean = (state.excess + settings.prior_count * settings.prior_excess) / count
        often = count / (min(num_records, _MEMORY_RECORDS) + 200.0)
        return max(settings.limit, FROM + mean * math.log(often / settings.rate))
