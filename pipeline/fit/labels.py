"""Labelled runs: a folder of logs, with ``labels.csv`` that says what happened in them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from holter.pipeline.fit.errors import BadLabels

LABELS = "labels.csv"
INDEX = "INDEX.csv"
"""Optional; its column ``family`` says which files are alike."""

KINDS = frozenset({"loss_spike", "grad_explosion", "divergence", "nan", "collapse"})
SURE = frozenset({"high", "medium"})
_NEEDED = ("file", "row_start", "row_end", "kind", "recovered", "confidence", "incident")


@dataclass(frozen=True)
class LabelledIncident:
    """Rows are 0-based data rows of the file; ``last_row`` is within."""

    first_row: int
    last_row: int
    healed: bool


@dataclass(frozen=True)
class LabelledRun:
    path: Path
    family: str
    incidents: list[LabelledIncident]


def read_labels(folder: Path) -> list[LabelledRun]:
    """The runs in which something happened, in the order of their names.

    Labels of one (file, incident) are one incident, lost where one of them says that it did not recover. Those of
    low confidence, and of other kinds, are passed over.

    Raises:
        BadLabels: the folder has no such file, or a row of it cannot be read.
    """
    by_file: defaultdict[str, defaultdict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for label in _rows(folder / LABELS, _NEEDED):
        if label["kind"] in KINDS and label["confidence"] in SURE:
            by_file[label["file"]][label["incident"]].append(label)
    families = _families(folder / INDEX)
    return [
        LabelledRun(folder / file, families.get(file) or file, _incidents(folder / LABELS, groups.values()))
        for file, groups in sorted(by_file.items())
    ]


def _incidents(path: Path, groups: Iterable[list[dict[str, str]]]) -> list[LabelledIncident]:
    try:
        found = [
            LabelledIncident(
                min(int(label["row_start"]) for label in labels),
                max(int(label["row_end"]) for label in labels),
                all(label["recovered"] != "no" for label in labels),
            )
            for labels in groups
        ]
    except (ValueError, TypeError) as error:
        raise BadLabels(f"{path}: row_start and row_end must be numbers of rows ({error})") from None
    return sorted(found, key=lambda incident: incident.first_row)


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
