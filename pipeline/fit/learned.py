"""The learned detector fitted to labelled runs: weights by logistic regression, the threshold by F1 of its episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from holter.pipeline.core.detect.learned import FEATURES, QUIET_RECORDS, LearnedModel
from holter.pipeline.core.signals import SignalSettings, SignalStage
from holter.pipeline.core.steps import StepRecord
from holter.pipeline.fit.design import Flags, Floats
from holter.pipeline.fit.errors import TooFewIncidents
from holter.pipeline.fit.logistic import fit_logistic
from holter.pipeline.fit.refit import folds_of

Rows = tuple[int, int]
"""The first and the last one, 0-based."""

SILENT = LearnedModel(0.0, (0.0,) * len(FEATURES), np.inf)
"""Computes the features and says nothing."""


@dataclass(frozen=True)
class LearnedFitSettings:
    ridge: float = 10.0
    onset_rows: int = 10
    """Only the first rows of an incident teach what one looks like."""
    onset_weight: float = 20.0
    healthy_every: int = 10
    """Of healthy rows each tenth teaches, for ten."""
    rows_before: int = 5
    rows_after: int = 2
    """So close to an incident's label a row is neither healthy nor false."""
    hit_rows: int = 20
    """An episode that begins later is late: it counts for precision and not for recall."""
    thresholds: tuple[float, ...] = tuple(np.arange(-1.0, 9.0, 0.5).tolist())
    min_incidents: int = 10
    max_folds: int = 8


@dataclass(frozen=True)
class Lesson:
    """One labelled run. ``features`` is (rows, features); doubtful rows teach nothing and excuse an episode."""

    family: str
    features: Floats
    incidents: Sequence[Rows]
    doubtful: Sequence[Rows] = ()


@dataclass
class Tally:
    """Episodes against the labels; a false one is counted where it begins."""

    num_incidents: int = 0
    num_hit: int = 0
    num_late: int = 0
    num_false: int = 0
    num_healthy_rows: int = 0

    @property
    def f1(self) -> float:
        seen = self.num_hit + self.num_late
        precision = seen / (seen + self.num_false) if seen else 0.0
        recall = self.num_hit / self.num_incidents if self.num_incidents else 0.0
        return 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0


@dataclass(frozen=True)
class LearnedFit:
    """``outside`` is of families that were left out; None where there is one family."""

    model: LearnedModel
    fitted: Tally
    outside: Tally | None
    num_runs: int
    num_families: int


def features_of(records: Iterable[StepRecord], settings: SignalSettings | None = None) -> Floats:
    """What the detector sees of each record of one run, as the stage of a live run computes it."""
    settings = settings or SignalSettings()
    stage = SignalStage("fit", "run", replace(settings, detectors=replace(settings.detectors, learned=SILENT)))
    return np.array([_features(stage, record) for record in records]).reshape(-1, len(FEATURES))


def _features(stage: SignalStage, record: StepRecord) -> list[float]:
    stage.update(record, record.ts)
    return stage.learned_features


def fit_learned(lessons: Sequence[Lesson], settings: LearnedFitSettings | None = None) -> LearnedFit:
    """The model of all lessons, and how the same fit does on families that it does not see.

    Raises:
        TooFewIncidents: with the number there is and the number it takes.
    """
    settings = settings or LearnedFitSettings()
    num_incidents = sum(len(lesson.incidents) for lesson in lessons)
    if num_incidents < settings.min_incidents:
        raise TooFewIncidents(
            f"{num_incidents} labelled incidents; a detector needs {settings.min_incidents}: give more folders"
        )
    model = model_of(lessons, settings)
    return LearnedFit(
        model,
        tally(model, lessons, settings),
        _outside(lessons, settings),
        len(lessons),
        len({lesson.family for lesson in lessons}),
    )


def models_left_out(
    lessons: Sequence[Lesson], settings: LearnedFitSettings | None = None
) -> Iterator[tuple[set[str], LearnedModel]]:
    """Families, and a model that was fitted without them; each family once."""
    settings = settings or LearnedFitSettings()
    for fold in folds_of([lesson.family for lesson in lessons], settings.max_folds):
        yield fold, model_of([lesson for lesson in lessons if lesson.family not in fold], settings)


def model_of(lessons: Sequence[Lesson], settings: LearnedFitSettings) -> LearnedModel:
    """Weights first, then the threshold at which the episodes of the same lessons have the best F1."""
    weighed = _weigh(lessons, settings)
    scored = [
        (tally(replace(weighed, threshold=threshold), lessons, settings).f1, threshold)
        for threshold in settings.thresholds
    ]
    return replace(weighed, threshold=max(scored)[1])


def tally(model: LearnedModel, lessons: Iterable[Lesson], settings: LearnedFitSettings) -> Tally:
    """What the model's episodes find in the lessons."""
    total = Tally()
    for lesson in lessons:
        _count(total, lesson, episodes(model, lesson.features), settings)
    return total


def episodes(model: LearnedModel, features: Floats) -> list[int]:
    """The rows at which the detector speaks, where nothing else does.

    >>> model = LearnedModel(0.0, (1.0,) + (0.0,) * (len(FEATURES) - 1), threshold=3.0)
    >>> features = np.zeros((80, len(FEATURES)))
    >>> features[[5, 7, 24, 60], 0] = 4.0
    >>> episodes(model, features)
    [5, 60]
    """
    log_odds = model.bias + features @ np.array(model.weights)
    rows = np.flatnonzero(log_odds > model.threshold).tolist()
    return [row for before, row in zip([-np.inf, *rows], rows, strict=False) if row - before > QUIET_RECORDS]


def _weigh(lessons: Sequence[Lesson], settings: LearnedFitSettings) -> LearnedModel:
    rows = np.concatenate([lesson.features for lesson in lessons])
    parts = [_teach(lesson, settings) for lesson in lessons]
    truth, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows, truth, weight = rows[weight > 0.0], truth[weight > 0.0], weight[weight > 0.0]
    center, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
    terms = np.column_stack([np.ones(len(rows)), (rows - center) / spread])
    found = fit_logistic(terms, truth, weight, np.zeros(terms.shape[1]), settings.ridge)
    weights = found[1:] / spread
    rounded = tuple(round(float(value), 5) for value in weights)
    return LearnedModel(round(float(found[0] - weights @ center), 5), rounded, np.inf)


def _teach(lesson: Lesson, settings: LearnedFitSettings) -> tuple[Floats, Floats]:
    """Truth of each row, and how much it weighs: 0 where it teaches nothing."""
    size = len(lesson.features)
    truth, weight = np.zeros(size), np.zeros(size)
    weight[:: settings.healthy_every] = settings.healthy_every
    weight[~_is_healthy(lesson, settings)] = 0.0
    for first, last in lesson.incidents:
        onset = slice(first, min(last + 1, first + settings.onset_rows))
        truth[onset], weight[onset] = 1.0, settings.onset_weight
    return truth, weight


def _is_healthy(lesson: Lesson, settings: LearnedFitSettings) -> Flags:
    healthy = np.ones(len(lesson.features), np.bool_)
    for first, last in (*lesson.incidents, *lesson.doubtful):
        healthy[max(0, first - settings.rows_before) : last + settings.rows_after + 1] = False
    return healthy


def _count(total: Tally, lesson: Lesson, starts: Sequence[int], settings: LearnedFitSettings) -> None:
    healthy = _is_healthy(lesson, settings)
    total.num_healthy_rows += int(healthy.sum())
    total.num_false += sum(bool(healthy[start]) for start in starts)
    for first, last in lesson.incidents:
        total.num_incidents += 1
        begun = first - settings.rows_before
        if any(begun <= start <= first + settings.hit_rows for start in starts):
            total.num_hit += 1
        else:
            total.num_late += any(begun <= start <= last + settings.rows_after for start in starts)


def _outside(lessons: Sequence[Lesson], settings: LearnedFitSettings) -> Tally | None:
    if len({lesson.family for lesson in lessons}) < 2:
        return None
    total = Tally()
    for families, model in models_left_out(lessons, settings):
        for lesson in lessons:
            if lesson.family in families:
                _count(total, lesson, episodes(model, lesson.features), settings)
    return total
