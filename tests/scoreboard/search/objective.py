"""One number for what a detector did, so that constants can be chosen by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from tests.scoreboard.score import Figures, RunScore, total

NO_PROBABILITY = 0.25


def objective(scores_by_folder: Mapping[str, Iterable[RunScore]]) -> float:
    """The mean over folders, so that a large one does not drown a small one."""
    return fmean(_of_folder(total(scores)) for scores in scores_by_folder.values())


def _of_folder(figures: Figures) -> float:
    """F1 first; acting on lost runs and leaving healing ones alone, the probability and false signals beside it."""
    number = {key: NO_PROBABILITY if value is None else float(value) for key, value in figures.items()}
    acting = 0.2 * number["lost_acted"] - 0.2 * number["selfheal_acted"]
    return number["f1"] + acting - 0.5 * number["brier"] - 0.01 * number["false_signals_per_10k"]
