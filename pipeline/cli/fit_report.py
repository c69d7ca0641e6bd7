"""What a fit prints for people."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from holter.pipeline.core.detect.learned import FEATURES
from holter.pipeline.core.recovery import RecoveryWeights
from holter.pipeline.fit.incidents import Gathered
from holter.pipeline.fit.learned import LearnedFit
from holter.pipeline.fit.priors import Priors
from holter.pipeline.fit.refit import Refit


def left_out_line(gathered: Gathered) -> str:
    """The incidents that could not be used, in one line; empty where there are none."""
    reasons = [f"{count} × {reason}" for reason, count in sorted(gathered.left_out.items())]
    return f"left out: {', '.join(reasons)}" if reasons else ""


def print_refit(console: Console, refit: Refit, shipped: RecoveryWeights) -> None:
    console.print(
        f"{refit.num_healed} incidents healed and {refit.num_lost} were lost, in {refit.num_groups} groups of runs "
        f"({refit.num_records:,} records)",
        highlight=False,
    )
    for table in (_brier(refit), _reliability(refit), _coefficients(refit, shipped)):
        console.print(table)
    unseen = refit.scores.fitted_cross_validated
    if unseen is None:
        console.print("There is one group only: how the fit does elsewhere is not known.", highlight=False)
    elif unseen >= refit.scores.before:
        console.print(
            "On groups that it did not see the fit does no better than the shipped coefficients: keep those.",
            highlight=False,
        )


def print_priors(console: Console, priors: Priors) -> None:
    table = _table("kind/effect", numbers=("times", "ended well"), title="What helped before")
    for name, prior in priors.items():
        table.add_row(name, f"{prior.num:.0f}", f"{prior.num_recovered:.0f}")
    console.print(table)


def print_learned(console: Console, fit: LearnedFit) -> None:
    """How its episodes do on the runs it was fitted to, and on families that it did not see."""
    console.print(
        f"{fit.fitted.num_incidents} incidents in {fit.num_runs} runs of {fit.num_families} families "
        f"({fit.fitted.num_healthy_rows:,} healthy rows); the threshold is {fit.model.threshold:g}",
        highlight=False,
    )
    table = _table("episodes of", numbers=("F1", "in time", "late", "missed", "false"))
    for name, found in (("these runs", fit.fitted), ("families left out", fit.outside)):
        if found is not None:
            missed = found.num_incidents - found.num_hit - found.num_late
            numbers = (found.num_hit, found.num_late, missed, found.num_false)
            table.add_row(name, f"{found.f1:.3f}", *map(str, numbers))
    console.print(table)
    weights = _table("feature", numbers=("weight",))
    for feature, weight in zip(FEATURES, fit.model.weights, strict=True):
        weights.add_row(feature, f"{weight:.3f}")
    console.print(weights)


def _brier(refit: Refit) -> Table:
    scores = refit.scores
    table = _table("Brier score", numbers=("these", "groups left out"))
    table.add_row("base rate", _score(scores.base_rate), _score(scores.base_rate_cross_validated))
    table.add_row("shipped coefficients", _score(scores.before), _score(scores.before))
    table.add_row("fitted coefficients", _score(scores.fitted), _score(scores.fitted_cross_validated))
    return table


def _reliability(refit: Refit) -> Table:
    is_outside = refit.scores.fitted_cross_validated is not None
    title = "Forecasts for groups left out" if is_outside else "Forecasts for the incidents that were fitted"
    table = _table("said", numbers=("incidents", "mean", "healed"), title=title)
    for row in refit.reliability:
        said = f"{row.low:.1f} to {row.high:.1f}"
        table.add_row(said, f"{row.num_incidents:.1f}", f"{row.forecast:.2f}", f"{row.healed:.2f}")
    return table


def _coefficients(refit: Refit, shipped: RecoveryWeights) -> Table:
    table = _table("coefficient", numbers=("shipped", "fitted"))
    before = asdict(shipped)
    for name, value in asdict(refit.weights).items():
        table.add_row(name, f"{before[name]:.2f}", f"{value:.2f}")
    return table


def _table(*names: str, numbers: tuple[str, ...] = (), title: str | None = None) -> Table:
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _score(score: float | None) -> str:
    return "–" if score is None else f"{score:.3f}"
