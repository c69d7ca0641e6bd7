"""Numbers that stand behind an advice: of the table that comes with Holter, or of one that was measured since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holter.infra.stabilisers.measured import MEASURED
from holter.infra.stabilisers.published import CHECKFREE_CLAIM, CLAIMS
from holter.pipeline.core.advise.stabilisers import CHECKFREE, ROLLBACK, Stabiliser

_FAULTS = {"clean": "no fault", "gradient": "gradient ×1000", "data": "bad data", "lr": "learning rate ×30"}
Document = Mapping[str, Any]


class NoTable(Exception):
    """The file is no table that could be quoted."""


def measured(path: Path = MEASURED) -> Document:
    """The document that ``make stabilisers ARGS=--json`` ends with, the last line of a file.

    Raises:
        NoTable: there is none.
    """
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
        document = json.loads(lines[-1])
        if isinstance(document, dict) and isinstance(document.get("losses"), dict):
            return document
    except (OSError, ValueError, IndexError) as error:
        raise NoTable(f"{path}: {error}") from error
    raise NoTable(f"{path} is no result of `make stabilisers ARGS=--json`")


def measured_of(document: Document, arm: str) -> dict[str, list[float | None]]:
    """Mean and deviation of the final loss by fault and β2, the unclipped run's first where it is another."""
    found = {}
    for key, value in document["losses"].items():
        name, fault, beta2 = key.split("/")
        if name == arm:
            found[f"{_FAULTS.get(fault, fault)}, β2 {beta2}"] = value
    return found


def wording(document: Document, arm: str) -> str:
    """In one line; empty where the table has no such row.

    >>> wording({"losses": {"zclip/lr/0.95": [2.1, 0.01], "none/lr/0.95": [2.3, 0.02]}}, "zclip")
    'final loss 2.100 ±0.010 (unclipped 2.300) after learning rate ×30, β2 0.95'
    """
    unclipped = measured_of(document, "none")
    parts = []
    for title, (mean, deviation) in measured_of(document, arm).items():
        error = f" ±{deviation:.3f}" if deviation is not None else ""
        beside = unclipped.get(title, [None])[0]
        against = f" (unclipped {_loss(beside)})" if title in unclipped and arm != "none" else ""
        parts.append(f"{_loss(mean)}{error}{against} after {title}")
    return f"final loss {'; '.join(parts)}" if parts else ""


def claim(stabiliser: Stabiliser) -> str:
    """What its authors say, empty where they are not quoted. Going back has none: it is a policy of this project."""
    if stabiliser is ROLLBACK:
        return ""
    return CHECKFREE_CLAIM if stabiliser is CHECKFREE else CLAIMS.get(stabiliser.arm, "")


def _loss(value: float | None) -> str:
    return "lost" if value is None else f"{value:.3f}"
