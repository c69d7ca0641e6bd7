"""A folder of labelled runs: ``INDEX.csv`` (file, family), ``labels.csv``, and a gzipped CSV for each run."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, UPDATE_NORM
from tests.scoreboard.series import record
from tests.scoreboard.truth import Label, LabelledRun

COLUMNS = {
    "loss": LOSS,
    "grad_norm": GRAD_NORM,
    "update_norm": UPDATE_NORM,
    "lr": LEARNING_RATE,
    "loss_scale": "amp/loss_scale",
    "val_loss": "eval/loss",
}
SUFFIX = ".csv.gz"


def runs_of(folder: Path) -> Iterator[LabelledRun]:
    """In the order of the index.

    Raises:
        FileNotFoundError: the folder is none of labelled runs.
    """
    labels: dict[str, list[Label]] = defaultdict(list)
    for row in _rows(folder / "labels.csv"):
        labels[row["file"]].append(_label(row))
    for row in _rows(folder / "INDEX.csv"):
        name = row["file"]
        yield LabelledRun(name.removesuffix(SUFFIX), row["family"], records_of_file(folder / name), labels[name])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _label(row: dict[str, str]) -> Label:
    return Label(
        int(row["row_start"]), int(row["row_end"]), row["kind"], row["incident"], row["recovered"] != "no",
        row["confidence"],
    )  # fmt: skip


def records_of_file(path: Path) -> list[StepRecord]:
    """A record a row; an empty cell is a missing value, a row without a step is of the step before it."""
    with gzip.open(path, "rt", newline="") as lines:
        rows = csv.reader(lines)
        header = next(rows)
        at_step = header.index("step")
        at = [(index, COLUMNS[name]) for index, name in enumerate(header) if name in COLUMNS]
        step, records = 0, []
        for number, row in enumerate(rows):
            step = int(float(row[at_step])) if row[at_step] else step
            records.append(record(number, step, {name: float(row[index]) for index, name in at if row[index]}))
        return records
