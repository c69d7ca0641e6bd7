"""A folder of labelled runs that the tests make themselves."""

from __future__ import annotations

import csv
import random
from pathlib import Path

CALM_ROWS = 150
LABEL_COLUMNS = ("file", "kind", "recovered", "confidence", "row_start", "row_end", "incident")


def write_folder(folder: Path, num_healing_runs: int = 4, num_lost_runs: int = 6) -> Path:
    """Runs with four spikes each that heal, and runs that end in NaN."""
    labels: list[tuple[object, ...]] = []
    for number in range(num_healing_runs):
        labels += _write_healing(folder / f"heals-{number}.csv", number)
    for number in range(num_lost_runs):
        labels += _write_lost(folder / f"lost-{number}.csv", number)
    _write_csv(folder / "labels.csv", LABEL_COLUMNS, labels)
    _write_csv(folder / "INDEX.csv", ("file", "family"), [(label[0], str(label[0])[:-6]) for label in labels])
    return folder


def _write_healing(path: Path, seed: int) -> list[tuple[object, ...]]:
    losses, labels = _calm(seed), []
    for incident in range(4):
        labels.append((path.name, "loss_spike", "yes", "high", len(losses), len(losses) + 40, incident))
        losses += [8.0 - 0.5 * step for step in range(12)]
        losses += _calm(100 * seed + incident + 1)
    _write_run(path, losses)
    return labels


def _write_lost(path: Path, seed: int) -> list[tuple[object, ...]]:
    losses = _calm(1000 + seed)
    label = (path.name, "nan", "no", "medium", len(losses), len(losses) + 39, 1)
    _write_run(path, [*losses, *[float("nan")] * 40])
    return [label]


def _calm(seed: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(2.0, 0.02) for _ in range(CALM_ROWS)]


def _write_run(path: Path, losses: list[float]) -> None:
    _write_csv(path, ("step", "loss"), list(enumerate(losses)))


def _write_csv(path: Path, names: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(names)
        writer.writerows(rows)
