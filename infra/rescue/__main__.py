"""``make rescue``: every fault, every policy, several seeds; one table and, with ``--json``, one object."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holter.infra.errors import StackError
from holter.infra.rescue import matrix
from holter.infra.rescue.arm import SHADOW
from holter.infra.rescue.faults import FAULTS
from holter.infra.rescue.formula import measure
from holter.infra.rescue.live import LIVE_FAULTS, bus_of_stack, live_table, plain, run_all_live
from holter.infra.rescue.lockstep import Pace
from holter.infra.rescue.results import Results
from holter.infra.rescue.run import run_with_progress
from holter.infra.rescue.score import Case, cases, score
from holter.infra.rescue.summary import summary
from holter.infra.rescue.table import fault_table, formula_lines, policy_table
from holter.infra.settings import settings_from_env
from holter.infra.stack import Stack
from holter.pipeline.core.decide.policy import PRESETS

_WIDTH_IN_FILES = 170


def rescue(
    faults: Annotated[str, typer.Option(help=f"Comma-separated, of {', '.join(FAULTS)}.")] = ",".join(FAULTS),
    policies: Annotated[
        str, typer.Option(help=f"Comma-separated, of {', '.join(PRESETS)}; shadow is always there.")
    ] = ",".join(matrix.POLICIES),
    seeds: Annotated[str, typer.Option(help="Comma-separated numbers.")] = "1,2,3",
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = os.cpu_count() or 1,
    steps_after: Annotated[int, typer.Option(min=100, help="Executed steps after the fault.")] = matrix.STEPS_AFTER,
    lag: Annotated[int, typer.Option(min=0, help="Steps from a decision to its latch in the trainer.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="Keeps results; by default rescue in the home folder.")] = None,
    fresh: Annotated[bool, typer.Option(help="Run again what is there already.")] = False,
    real_stack: Annotated[
        bool, typer.Option("--real-stack", help=f"Of {', '.join(LIVE_FAULTS)}: through the stack that is up.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on the last line.")] = False,
) -> None:
    """Hurt live runs in every way, treat them by every policy, and hold them against a twin that is left alone.

    An interrupted run goes on where it was; results of other code are not taken.
    Exit codes: 0 done, 1 a run failed, 2 a wrong option.
    Example: make rescue ARGS="--faults lr-burst,nan-loss --seeds 1"
    """
    console = _console(as_json)
    wanted = _matrix(faults, policies, seeds, steps_after)
    pace = Pace(lag_steps=lag)
    results = Results(folder or settings_from_env(os.environ).home / "rescue", pace)
    if fresh:
        results.forget()
    try:
        if real_stack:
            _through_stack(wanted, results, pace, jobs, as_json, console)
            return
        found = run_with_progress(wanted, results, pace, jobs, console)
    except (matrix.ArmsFailed, StackError) as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None
    judged = cases(found, results.curve)
    _show(judged, wanted.policies, pace, console)
    console.print(f"Every decision of every run lies in {results.folder / 'arms'}.")
    if as_json:
        print(json.dumps(summary(judged, wanted.policies, pace.step_seconds)))


def _through_stack(
    wanted: matrix.Matrix, results: Results, pace: Pace, num_jobs: int, as_json: bool, console: Console
) -> None:
    """Raises :class:`StackError` where none is up."""
    faults = tuple(name for name in wanted.faults if name in LIVE_FAULTS)
    bus = bus_of_stack(Stack(settings_from_env(os.environ), os.environ, console).state())
    untreated = matrix.Matrix(faults, (SHADOW,), wanted.seeds[:1], wanted.steps_after, False, False)
    judged = cases(run_with_progress(untreated, results, pace, num_jobs, console), results.curve)
    by_fault = {case.fault: case for case in judged if case.fault in faults}
    plans = {fault: case.twin.arm.plan for fault, case in by_fault.items()}
    with tempfile.TemporaryDirectory(prefix="holter-rescue-") as folder, console.status("") as status:
        tell = status.update if console.is_terminal else console.print
        lives = run_all_live(plans, bus, Path(folder), tell)
    console.print(live_table(lives, by_fault))
    if as_json:
        print(json.dumps({"real_stack": [plain(live, by_fault[live.fault]) for live in lives]}))


def _show(judged: Sequence[Case], policies: Sequence[str], pace: Pace, console: Console) -> None:
    console.print(fault_table(judged, policies))
    console.print(policy_table({name: score(judged, name, pace.step_seconds) for name in policies}))
    for line in formula_lines(measure(judged)):
        console.print(line, highlight=False)
    console.print(
        f"A step counts {pace.step_seconds:g} s, a load {pace.load_seconds:g} s; an action is latched "
        f"{pace.lag_steps} step{'s' * (pace.lag_steps != 1)} after the step that decided it.",
        style="dim",
        highlight=False,
    )


def _matrix(faults: str, policies: str, seeds: str, steps_after: int) -> matrix.Matrix:
    chosen = _listed(policies, (SHADOW, *PRESETS), "--policies")
    return matrix.Matrix(
        _listed(faults, tuple(FAULTS), "--faults"),
        (SHADOW, *(name for name in chosen if name != SHADOW)),
        tuple(int(seed) for seed in _listed(seeds, tuple(map(str, range(1000))), "--seeds")),
        steps_after,
    )


def _listed(given: str, known: Sequence[str], option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"{unknown[0]!r} is not known" if unknown else "nothing is named"
        raise typer.BadParameter(f"{what}; known are {', '.join(known[:20])}", param_hint=option)
    return names


def _console(as_json: bool) -> Console:
    console = Console(stderr=as_json)
    return console if console.is_terminal else Console(stderr=as_json, width=_WIDTH_IN_FILES)


app = typer.Typer(add_completion=False)
app.command()(rescue)

if __name__ == "__main__":
    app()
