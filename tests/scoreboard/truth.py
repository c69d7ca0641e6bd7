"""What happened in a run, row by row: labels, and the incidents they make up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holter.pipeline.core.steps import StepRecord

ANOMALIES = frozenset({"loss_spike", "grad_explosion", "divergence", "nan", "collapse"})
BEFORE_ROWS, AFTER_ROWS = 5, 2
"""A signal so many rows before the first or after the last row of a label still belongs to it."""


class Label(NamedTuple):
    """Rows are 0-based, the last one included. ``incident`` groups the labels of one cause."""

    first_row: int
    last_row: int
    kind: str
    incident: str
    recovered: bool = True
    confidence: str = "high"


class LabelledRun(NamedTuple):
    """``family`` is what shares a cause: runs of one family are never both fitted and scored."""

    name: str
    family: str
    records: Sequence[StepRecord]
    labels: Sequence[Label]


@dataclass(frozen=True)
class Span:
    first_row: int
    last_row: int

    @property
    def num_rows(self) -> int:
        return self.last_row - self.first_row + 1

    def has(self, row: int) -> bool:
        return self.first_row <= row <= self.last_row

    def widened(self) -> Span:
        return Span(self.first_row - BEFORE_ROWS, self.last_row + AFTER_ROWS)


@dataclass(frozen=True)
class TrueIncident(Span):
    kinds: frozenset[str]
    recovered: bool


class Truth(NamedTuple):
    """``neutral`` spans (doubtful rows, isolated hard batches) are widened; a signal there is neither hit nor false."""

    incidents: list[TrueIncident]
    neutral: list[Span]

    @property
    def num_rows(self) -> int:
        """Rows that are not healthy."""
        return sum(span.num_rows for span in (*self.incidents, *self.neutral))


def truth_of(labels: Iterable[Label]) -> Truth:
    """Anomalies of high or medium confidence are incidents; blips, and labels of low confidence, are neutral."""
    groups: dict[str, list[Label]] = defaultdict(list)
    neutral = []
    for label in labels:
        if label.kind in ANOMALIES and label.confidence in ("high", "medium"):
            groups[label.incident].append(label)
        elif label.kind == "benign_blip" or label.confidence == "low":
            neutral.append(Span(label.first_row, label.last_row).widened())
    return Truth(sorted(map(_incident, groups.values()), key=lambda incident: incident.first_row), neutral)


def _incident(labels: list[Label]) -> TrueIncident:
    return TrueIncident(
        min(label.first_row for label in labels),
        max(label.last_row for label in labels),
        frozenset(label.kind for label in labels),
        all(label.recovered for label in labels),
    )
