"""Logistic regression on robust features, fitted on other families: the learned row of the table.

The corpora that the project makes share their faults: to leave a kind of them out hides its noise, not the harm done to
it, so only labelled real runs say how well this carries over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.scoreboard.learned.features import NAMES, features_of
from tests.scoreboard.learned.logistic import Logistic, fit
from tests.scoreboard.rule import Event
from tests.scoreboard.score import RunScore, score_run
from tests.scoreboard.search.objective import objective
from tests.scoreboard.series import Array
from tests.scoreboard.truth import LabelledRun, truth_of

NAME = "learned (logistic, family left out)"
QUIET_ROWS = 20
"""So many rows below the threshold end an incident."""
ONSET_ROWS = 10
"""Only the first rows of an incident teach what one looks like."""
HEALTHY_SHARE = 0.1
THRESHOLDS = tuple(np.arange(-1.0, 9.0).tolist())
NUM_PARTS = 8
"""Families are left out an eighth at a time."""
NOT_FINITE = NAMES.index("not finite")


@dataclass(frozen=True)
class Prepared:
    """``importance`` is zero where a row teaches nothing."""

    run: LabelledRun
    features: Array
    truth: Array
    importance: Array


def prepare(run: LabelledRun, random: np.random.Generator) -> Prepared:
    size = len(run.records)
    truth, importance = np.zeros(size), (random.random(size) < HEALTHY_SHARE) / HEALTHY_SHARE
    known = truth_of(run.labels)
    for span in known.neutral:
        importance[max(0, span.first_row) : span.last_row + 1] = 0.0
    for incident in known.incidents:
        importance[max(0, incident.first_row - 5) : incident.last_row + 3] = 0.0
        onset = slice(incident.first_row, min(incident.last_row + 1, incident.first_row + ONSET_ROWS))
        truth[onset] = 1.0
        importance[onset] = 20.0
    return Prepared(run, features_of(run.records), truth, importance)


@dataclass(frozen=True)
class Learned:
    model: Logistic
    threshold: float = 0.0

    def events(self, features: Array) -> list[Event]:
        """An incident lasts until the model has been quiet for a while; only a value that is no number is acted on."""
        events: list[Event] = []
        last_row, first_row = -QUIET_ROWS - 1, 0
        for row in np.flatnonzero(self.model.logits(features) > self.threshold).tolist():
            if row - last_row > QUIET_ROWS:
                first_row = row
            last_row = row
            is_nan = features[row, NOT_FINITE] == 1.0
            events.append(
                Event(row, "nan" if is_nan else "loss_spike", "rollback" if is_nan else "none", str(first_row))
            )
        return events


def fit_detector(prepared: Sequence[tuple[str, Prepared]]) -> Learned:
    """Weights first, then the threshold that does best on the same runs, by corpus."""
    kept = [item.importance > 0.0 for _, item in prepared]
    columns = [
        np.concatenate([getattr(item, name)[keep] for (_, item), keep in zip(prepared, kept, strict=True)])
        for name in ("features", "truth", "importance")
    ]
    model = fit(*columns)
    scored = {threshold: _objective(Learned(model, threshold), prepared) for threshold in THRESHOLDS}
    return Learned(model, max(scored, key=lambda threshold: scored[threshold]))


def _objective(detector: Learned, prepared: Sequence[tuple[str, Prepared]]) -> float:
    scores: dict[str, list[RunScore]] = {}
    for corpus, item in prepared:
        scores.setdefault(corpus, []).append(score(detector, item))
    return objective(scores)


def score(detector: Learned, item: Prepared) -> RunScore:
    return score_run(len(item.run.records), item.run.labels, detector.events(item.features))


def left_out_events(corpora: Mapping[str, Sequence[LabelledRun]], seed: int = 0) -> dict[str, list[list[Event]]]:
    """For each corpus the events of each run, by a detector that was fitted without the run's family."""
    random = np.random.default_rng(seed)
    prepared = [(corpus, prepare(run, random)) for corpus, runs in corpora.items() for run in runs]
    families = random.permutation(sorted({item.run.family for _, item in prepared})).tolist()
    part_of = {family: number % NUM_PARTS for number, family in enumerate(families)}
    detectors = {
        part: fit_detector([pair for pair in prepared if part_of[pair[1].run.family] != part])
        for part in sorted(set(part_of.values()))
    }
    events: dict[str, list[list[Event]]] = {corpus: [] for corpus in corpora}
    for corpus, item in prepared:
        events[corpus].append(detectors[part_of[item.run.family]].events(item.features))
    return events
