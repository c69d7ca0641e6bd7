"""Which nodes' counts of templates are unlike the others' (L4's spatial part)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from holter.pipeline.diagnose.errors import MissingLibrary

FEWEST_NODES = 4
NUM_TREES = 100


class Suspect(NamedTuple):
    node: str
    score: float
    """Of the Isolation Forest (Liu et al. 2008): from 0 to 1; the more, the sooner chance splits set it apart."""


def rank_nodes(counts: Mapping[str, Mapping[int, int]]) -> list[Suspect]:
    """All nodes, most unlike first; none where there are fewer than four, or all counts are the same.

    A feature is the logarithm of 1 + a count: one line more matters where there are few, not where there are many.

    Raises:
        MissingLibrary: scikit-learn is not installed.
    """
    nodes, identities = sorted(counts), sorted({each for count in counts.values() for each in count})
    table = np.log1p([[counts[node].get(identity, 0) for identity in identities] for node in nodes])
    if len(nodes) < FEWEST_NODES or not identities or bool((table == table[0]).all()):
        return []
    try:
        from sklearn.ensemble import IsolationForest
    except ImportError:
        raise MissingLibrary("scikit-learn") from None
    forest = IsolationForest(n_estimators=NUM_TREES, random_state=0).fit(table)
    scores = [float(-score) for score in forest.score_samples(table)]
    return sorted(map(Suspect, nodes, scores), key=lambda each: (-each.score, each.node))
