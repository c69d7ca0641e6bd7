"""``make demo``: one training run three times, unhurt, hurt, and hurt but treated, through the whole stack."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from holter.infra.bench.figures import percentile
from holter.infra.demo import questions, timeline
from holter.infra.demo.arms import ARMS, Arm, ArmFailed, ArmResult, Plan, run_arm
from holter.infra.demo.follow import Follower, Heard
from holter.infra.errors import StackError
from holter.infra.settings import settings_from_env
from holter.infra.stack import Stack
from holter.infra.state import StackState
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas.control import Action, Health
from holter.schemas.decisions import Decision
from holter.schemas.signals import Signal

NUM_STEPS = 700
FAULT_AT = 410
_WIDTH_IN_FILES = 140


def demo(
    fault: Annotated[Literal["lr-burst", "bad-data", "nan"], typer.Option(help="How the run is hurt.")] = "lr-burst",
    seed: Annotated[int, typer.Option(help="Of model and data; the same for all three.")] = 1,
    num_steps: Annotated[
        int, typer.Option("--steps", min=200, help="Executed steps, redone ones counted.")
    ] = NUM_STEPS,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on the last line.")] = False,
) -> None:
    """Watch a small GPT being hurt, noticed and healed by the real broker, cluster and store.

    Exit codes: 0 done, 1 the stack or a run failed. Example: make demo ARGS="--fault nan"
    """
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=_WIDTH_IN_FILES)
    try:
        stack = Stack(settings_from_env(os.environ), os.environ, console)
        state = stack.up().state
        plan = Plan(fault, num_steps, FAULT_AT * num_steps // NUM_STEPS, seed, settings_from_env(os.environ).home,
                    time.strftime("%H%M%S"))  # fmt: skip
        results, heard = _train(plan, state, console)
        _show(plan, state, results, heard, console)
    except (StackError, ArmFailed) as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps(_summary(plan, results, heard)))


def _train(plan: Plan, state: StackState, console: Console) -> tuple[dict[Arm, ArmResult], Follower]:
    columns = (TextColumn("{task.description:8}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        follower = Follower(
            KafkaBus(KafkaSettings(state.kafka_bootstrap or "", state.prefix)),
            lambda heard: _say(heard, progress.console),
        )
        follower.start()
        tasks = {arm: progress.add_task(arm, total=plan.num_steps, note="", start=False) for arm in ARMS}
        results: dict[Arm, ArmResult] = {}
        for arm in ARMS:
            progress.start_task(tasks[arm])

            def on_progress(executed: int, step: int, loss: float, arm: Arm = arm) -> None:
                progress.update(tasks[arm], completed=executed, note=f"step {step:4d}  loss {loss:.3f}")

            results[arm] = run_arm(plan, arm, on_progress)
        follower.stop()
    return results, follower


def _say(heard: Heard, console: Console) -> None:
    """What is worth a line while it happens."""
    record = heard.record
    if isinstance(record, Signal) and record.phase != "update":
        console.print(f"  {record.run}: {record.explanation}", highlight=False)
    elif isinstance(record, Decision) and record.choice != "monitor":
        console.print(f"  {record.run}: {record.choice} ({record.mode}): {record.reason}", highlight=False)


def _show(plan: Plan, state: StackState, results: dict[Arm, ArmResult], follower: Follower, console: Console) -> None:
    guarded = results["guarded"]
    heard = follower.of_run(guarded.run)
    console.print(timeline.table(timeline.entries(guarded, heard)))
    latencies = _latencies(follower)
    if latencies:
        console.print(
            f"From a step's own clock to the verdict read back: p50 {percentile(latencies, 0.5):.0f} ms, "
            f"p99 {percentile(latencies, 0.99):.0f} ms ({len(latencies)} messages; values leave a step late by design)."
        )
    console.print(_closing(results, heard))
    if state.store_dsn is not None:
        if not questions.wait_until_loaded(state.store_dsn, [result.run for result in results.values()]):
            console.print("[yellow]The store is still behind: answers may be incomplete.[/yellow]")
        questions.ask(state.store_dsn, plan.name, console)
    console.print('\nThe stack stays up: `holter sql "SELECT * FROM runs"`, `make status`, `make down`.', markup=False)


def _closing(results: dict[Arm, ArmResult], heard: list[Heard]) -> Table:
    shown = Table(title="At the same number of executed steps", title_justify="left")
    for column in ("run", "final loss", "above unhurt", "steps lost", "actions"):
        shown.add_column(column, justify="left" if column == "run" else "right")
    unhurt = results["unhurt"].final_loss
    for arm, result in results.items():
        actions = _num_actions(heard) if arm == "guarded" else 0
        above = f"{result.final_loss - unhurt:+.3f}"
        shown.add_row(arm, f"{result.final_loss:.3f}", above, str(result.steps_lost), str(actions))
    gap, left = results["shadow"].final_loss - unhurt, results["guarded"].final_loss - unhurt
    if math.isfinite(gap) and gap > 0:
        shown.caption = f"{1 - left / gap:.0%} of the gap between shadow and unhurt closed"
    elif not math.isfinite(gap):
        shown.caption = "untreated, the run was lost"
    return shown


def _num_actions(heard: list[Heard]) -> int:
    return sum(isinstance(item.record, Action) for item in heard)


def _latencies(follower: Follower) -> list[float]:
    """Of everything that ``watch`` said of the demo's runs."""
    kinds = Signal | Decision | Action | Health
    return [float(heard.latency_ms) for heard in follower.heard if isinstance(heard.record, kinds)]


def _summary(plan: Plan, results: dict[Arm, ArmResult], follower: Follower) -> dict[str, object]:
    latencies = _latencies(follower) or [math.nan]
    guarded = results["guarded"]
    return {
        "fault": plan.fault,
        "unhurt": {"final_loss": _finite(results["unhurt"].final_loss)},
        "shadow": {"final_loss": _finite(results["shadow"].final_loss)},
        "guarded": {
            "final_loss": _finite(guarded.final_loss),
            "steps_lost": guarded.steps_lost,
            "actions": _num_actions(follower.of_run(guarded.run)),
        },
        "latency_ms": {"p50": _finite(percentile(latencies, 0.5)), "p99": _finite(percentile(latencies, 0.99))},
    }


def _finite(value: float) -> float | None:
    """JSON has no NaN: a lost run's loss is null."""
    return value if math.isfinite(value) else None


if __name__ == "__main__":
    typer.run(demo)
