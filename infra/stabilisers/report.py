"""What is shown at the end: one table beside the claims, CheckFree's part, and what related work gave."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from holter.infra.bench.figures import table as figure_table
from holter.infra.stabilisers.arms import ARMS
from holter.infra.stabilisers.campaign import Campaign
from holter.infra.stabilisers.document import Recoveries, Trials
from holter.infra.stabilisers.published import CHECKFREE_CLAIM, CLAIMS, RELATED
from holter.infra.stabilisers.setting import BETA2S, FAULTS, FaultName
from holter.infra.stabilisers.summary import (
    Spread,
    cost_of,
    figures,
    losses,
    ordering_verdict,
    recovery_steps,
    remedies,
)

_TITLES: dict[FaultName, str] = {"clean": "clean", "gradient": "grad ×1000", "data": "data", "lr": "lr ×30"}


def show(console: Console, campaign: Campaign, trials: Trials, recoveries: Recoveries) -> None:
    console.print(_losses_table(campaign, trials))
    console.print(
        "held out loss in nats at the end, mean ± standard deviation over seeds of the same data and weights; "
        "in brackets what the fault cost against the same row's own clean runs",
        style="dim",
    )
    if named := figures(trials):
        console.print(figure_table(named))
    if recoveries:
        console.print(_remedies_table(campaign, recoveries))
        console.print(f"The published order {ordering_verdict(remedies(recoveries))}.\nClaim: {CHECKFREE_CLAIM}")
    console.print(_related_table())


def _losses_table(campaign: Campaign, trials: Trials) -> Table:
    shown = Table(title=f"Stabilisers: {campaign.setting.described()}")
    columns = [(fault, beta2) for beta2 in BETA2S for fault in FAULTS if (fault, beta2) in campaign.cells]
    shown.add_column("stabiliser", no_wrap=True)
    shown.add_column("origin")
    for fault, beta2 in columns:
        shown.add_column(f"{_TITLES[fault]}\nβ2 {beta2:g}", justify="right")
    shown.add_column("steps after\nlr ×30", justify="right")
    shown.add_column("published")
    for arm in campaign.arms:
        cells = [_cell(trials, arm, fault, beta2) for fault, beta2 in columns]
        claim = CLAIMS.get(arm, "")
        shown.add_row(ARMS[arm].label, ARMS[arm].origin, *cells, _steps(trials, arm), claim, end_section=arm == "none")
    return shown


def _cell(trials: Trials, arm: str, fault: FaultName, beta2: float) -> str:
    value = losses(trials).get((arm, fault, beta2))
    cost = None if fault == "clean" else cost_of(trials, arm, fault, beta2)
    if value is None:
        return "–"
    return _text(value) + ("" if cost is None else f"\n({cost.mean:+.3f})")


def _steps(trials: Trials, arm: str) -> str:
    mean, num_lost = recovery_steps(trials, arm, BETA2S[0])
    never = f"{num_lost} never" if num_lost else ""
    return "\n".join(part for part in ("" if mean is None else f"{mean:.0f}", never) if part)


def _remedies_table(campaign: Campaign, recoveries: Recoveries) -> Table:
    assert campaign.ordering is not None
    toy, num = campaign.ordering.toy, len(campaign.ordering.lost_at)
    shown = Table(title=f"CheckFree: {toy.described()}, {campaign.ordering.num_stages} stages, {num} losses of a stage")
    for column in ("lost stage becomes", "jump at once", "training loss after", "held out at the end"):
        shown.add_column(column, justify="left" if column == "lost stage becomes" else "right")
    for remedy, each in remedies(recoveries).items():
        shown.add_row(remedy, _text(each.jump), _text(each.loss_after), _text(each.loss))
    return shown


def _related_table() -> Table:
    shown = Table(title="Related systems", show_lines=True)
    for column in ("paper", "what it does", "what Holter takes, and why not the rest"):
        shown.add_column(column)
    for each in RELATED:
        shown.add_row(*each)
    return shown


def _text(value: Spread) -> str:
    if not math.isfinite(value.mean):
        return "lost"
    return f"{value.mean:.3f}" + (f" ±{value.deviation:.3f}" if math.isfinite(value.deviation) else "")
