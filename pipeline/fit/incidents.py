"""Incidents whose end is known, as the fit takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

Features = Mapping[str, float]
"""The features of P(recover) at one record, by name; what is unknown is absent."""


@dataclass(frozen=True)
class ClosedIncident:
    """
    Attributes:
        group: what is left out together in cross-validation: the incidents of one are alike.
        records: features at its records, oldest first.
    """

    group: str
    healed: bool
    records: list[Features]


@dataclass
class Gathered:
    """``left_out`` counts the incidents that could not be used, by reason."""

    incidents: list[ClosedIncident] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, group: str, healed: bool, records: list[Features], max_records: int) -> None:
        """Takes an incident with those of its records that are at most ``max_records`` after the onset."""
        early = [features for features in records if features and features.get("num_records", 0.0) <= max_records]
        if early:
            self.incidents.append(ClosedIncident(group, healed, early))
        else:
            self.left_out["no features are known"] += 1
