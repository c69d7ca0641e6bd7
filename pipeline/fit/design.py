"""Features as the terms of the logit, before their coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from holter.pipeline.core.recovery import RecoveryFeatures, RecoveryWeights, estimate
from holter.pipeline.fit.incidents import ClosedIncident, Features

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

TERMS = tuple(field.name for field in fields(RecoveryWeights))
_EACH_ONCE = RecoveryWeights(**dict.fromkeys(TERMS, 1.0))


def terms_of(features: Features) -> list[float]:
    """The terms, in the order of :data:`TERMS`: the logit is their sum weighted by the coefficients.

    They come from the estimate itself, with all coefficients 1, so that what is fitted is what is computed. Names
    that this version does not know are ignored, those that are absent or NaN are unknown.

    >>> dict(zip(TERMS, terms_of({"num_records": 5, "given_back": 0.5})))["given_back"]
    0.25
    """
    known = {name: features[name] for name in RecoveryFeatures._fields if not math.isnan(features.get(name, math.nan))}
    moved = estimate(RecoveryFeatures(**known), _EACH_ONCE).moved  # type: ignore[arg-type]
    return [moved.get(name, 0.0) for name in TERMS]


@dataclass(frozen=True)
class Design:
    """Records of many incidents.

    Attributes:
        terms: (records, terms).
        healed: 1.0 or 0.0 for each record.
        weight: of each record: those of one incident sum to 1.
        incident: number of the incident of each record.
        groups: the group of each incident.
    """

    terms: Floats
    healed: Floats
    weight: Floats
    incident: npt.NDArray[np.int64]
    groups: list[str]

    def of_groups(self, groups: set[str]) -> Flags:
        """Which records are of these groups."""
        within = np.array([group in groups for group in self.groups])
        return within[self.incident]


def design_of(incidents: Sequence[ClosedIncident]) -> Design:
    counts = [len(incident.records) for incident in incidents]
    terms = [terms_of(features) for incident in incidents for features in incident.records]
    return Design(
        terms=np.array(terms, dtype=np.float64).reshape(-1, len(TERMS)),
        healed=np.repeat([float(incident.healed) for incident in incidents], counts),
        weight=np.repeat([1.0 / count for count in counts], counts),
        incident=np.repeat(np.arange(len(incidents)), counts),
        groups=[incident.group for incident in incidents],
    )


def coefficients_of(weights: RecoveryWeights) -> Floats:
    return np.array([getattr(weights, name) for name in TERMS], dtype=np.float64)


def weights_of(coefficients: Floats) -> RecoveryWeights:
    return RecoveryWeights(**dict(zip(TERMS, map(float, coefficients), strict=True)))
