"""The tables of ``docs/stabilisers.md``, from the document that the command ends with and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.published import CLAIMS, RELATED
from holter.infra.stabilisers.setting import BETA2S, FAULTS, FaultName

Document = Mapping[str, Any]
_TITLES: dict[FaultName, str] = {
    "clean": "clean",
    "gradient": "gradient ×1000",
    "data": "bad data",
    "lr": "rate ×30",
}
_REMEDIES = {
    "nothing lost": "as it was (nothing lost)",
    "random": "random",
    "copy": "a copy of the one before",
    "average": "the average of its neighbours",
    "weighted": "their average by gradient norms",
}


def tables(document: Document) -> list[str]:
    """A table for each β2, the claims, CheckFree's where it was measured, and related systems."""
    found = [_losses(document, f"{beta2:g}") for beta2 in BETA2S]
    found.append(_table(("", "their claim", "here"), list(_claims(document))))
    if document["checkfree"]:
        found.append(_checkfree(document))
    found.append(_table(("paper", "what it does", "what Holter takes, and why not the rest"), RELATED))
    return [each for each in found if each]


def _losses(document: Document, beta2: str) -> str:
    faults = [fault for fault in FAULTS if f"none/{fault}/{beta2}" in document["losses"]]
    head = [f"β2 {beta2}", "origin", *(_TITLES[fault] for fault in faults)]
    arms = [arm for arm in ARMS if any(f"{arm}/{fault}/{beta2}" in document["losses"] for fault in faults)]
    rows = [
        [ARMS[arm].label, ARMS[arm].origin or "–", *(_cell(document, f"{arm}/{fault}/{beta2}") for fault in faults)]
        for arm in arms
    ]
    if "lr" in faults:
        head.append("steps back after rate ×30")
        for arm, row in zip(arms, rows, strict=True):
            row.append(_steps_back(document, f"{arm}/{beta2}"))
    return _table(head, rows) if faults else ""


def _cell(document: Document, key: str) -> str:
    """
    >>> _cell({"losses": {"agc/lr/0.95": [2.4851, 0.0294]}, "costs": {"agc/lr/0.95": 0.0731}}, "agc/lr/0.95")
    '2.485 ± .029 (+.073)'
    """
    mean, deviation = document["losses"].get(key, (None, None))
    if mean is None:
        return "lost" if key in document["losses"] else "–"
    spread = "" if deviation is None else f" ± {_short(deviation)}"
    cost = document["costs"].get(key)
    return f"{mean:.3f}{spread}" + ("" if cost is None else f" ({_short(cost, '+')})")


def _steps_back(document: Document, key: str) -> str:
    mean, num_never = document["steps_back"][key]
    if mean is None:
        return "never"
    return f"{mean:.0f}" + (f", {num_never} never" if num_never else "")


def _claims(document: Document) -> Iterator[list[str]]:
    quoted: tuple[tuple[FaultName, str], ...] = (("gradient", "0.999"), ("lr", "0.95"))
    for arm, claim in CLAIMS.items():
        here = [
            f"{_TITLES[fault]}, β2 {beta2}: {_mean(document, arm, fault, beta2)} "
            f"(unclipped {_mean(document, 'none', fault, beta2)})"
            for fault, beta2 in quoted
            if f"{arm}/{fault}/{beta2}" in document["losses"]
        ]
        yield [ARMS[arm].label, claim, "; ".join(here) or "–"]


def _mean(document: Document, arm: str, fault: str, beta2: str) -> str:
    mean = document["losses"][f"{arm}/{fault}/{beta2}"][0]
    return "lost" if mean is None else f"{mean:.3f}"


def _checkfree(document: Document) -> str:
    head = ("the lost stage becomes", "held out loss jumps by", "training loss just after", "held out loss at the end")
    rows = [
        [_REMEDIES[remedy], *(_spread(measured[name]) for name in ("jump", "loss_after", "loss"))]
        for remedy, measured in document["checkfree"].items()
    ]
    return _table(head, rows)


def _spread(value: Sequence[float | None]) -> str:
    mean, deviation = value
    if not mean:
        return "–"
    return _short(mean) + ("" if deviation is None else f" ± {_short(deviation)}")


def _short(value: float, sign: str = "") -> str:
    """
    >>> _short(0.0731, "+"), _short(-0.0004), _short(2.4871)
    ('+.073', '-.000', '2.487')
    """
    return f"{value:{sign}.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:{sign}.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
