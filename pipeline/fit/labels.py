"""Labelled runs: a folder of logs, with ``labels.csv`` that says what happened in them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from holter.pipeline.fit.errors import BadLabels

LABELS = "labels.csv"
INDEX = "INDEX.csv"
"""Optional; its column ``family`` says which files are alike."""

KINDS = frozenset({"loss_spike", "grad_explosion", "divergence", "nan", "collapse"})
SURE = frozenset({"high", "medium"})
BLIP = "benign_blip"
"""A row that is far off and means nothing."""
_NEEDED = ("file", "row_start", "row_end", "kind", "recovered", "confidence", "incident")


@dataclass(frozen=True)
class LabelledIncident:
    """Rows are 0-based data rows of the file; ``last_row`` is within."""

    first_row: int
    last_row: int
    healed: bool


@dataclass(frozen=True)
class LabelledRun:
    """``doubtful`` are first and last rows of what is neither an incident nor healthy."""

    path: Path
    family: str
    incidents: list[LabelledIncident]
    doubtful: list[tuple[int, int]] = field(default_factory=list)


def read_labels(folder: Path) -> list[LabelledRun]:
    """The runs in which something happened, in the order of their names.

    Labels of one (file, incident) are one incident, lost where one of them says that it did not recover. Those of
    low confidence are doubtful, as blips are; other kinds are passed over.

    Raises:
        BadLabels: the folder has no such file, or a row of it cannot be read.
    """
    return [run for run in read_runs(folder) if run.incidents]


def read_runs(folder: Path) -> list[LabelledRun]:
    """Also the runs of the index in which nothing happened.

    Raises:
        BadLabels: see :func:`read_labels`.
    """
    by_file: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for label in _rows(folder / LABELS, _NEEDED):
        by_file[label["file"]].append(label)
    families = _families(folder / INDEX)
    return [
        _run(folder, file, families.get(file) or file, by_file.get(file, []))
        for file in sorted(families.keys() | by_file.keys())
    ]


def _run(folder: Path, file: str, family: str, labels: list[dict[str, str]]) -> LabelledRun:
    groups: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    doubtful = []
    for label in labels:
        if label["kind"] in KINDS and label["confidence"] in SURE:
            groups[label["incident"]].append(label)
        elif label["kind"] == BLIP or label["confidence"] not in SURE:
            doubtful.append(label)
    try:
        return LabelledRun(
            folder / file, family, _incidents(groups.values()), [(_first(row), _last(row)) for row in doubtful]
        )
    except (ValueError, TypeError) as error:
        raise BadLabels(f"{folder / LABELS}: row_start and row_end must be numbers of rows ({error})") from None


def _incidents(groups: Iterable[list[dict[str, str]]]) -> list[LabelledIncident]:
    found = [
        LabelledIncident(
            min(map(_first, labels)), max(map(_last, labels)), all(label["recovered"] != "no" for label in labels)
        )
        for labels in groups
    ]
    return sorted(found, key=lambda incident: incident.first_row)


def _first(label: dict[str, str]) -> int:
    return int(label["row_start"])


def _last(label: dict[str, str]) -> int:
    return int(label["row_end"])


def _families(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    return {row["file"]: row.get("family") or "" for row in _rows(path, ("file",))}


def _rows(path: Path, needed: tuple[str, ...]) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as handle:
            reader = csv.DictReader(handle)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise BadLabels(f"{path} has no column {', '.join(missing)}")
            return list(reader)
    except OSError as error:
        raise BadLabels(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadLabels(f"{path} is no CSV file ({error})") from None
