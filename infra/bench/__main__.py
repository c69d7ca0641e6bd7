"""``make bench``: the figures that Holter promises, measured here and now on a stack of their own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holter.infra.bench import frameworks_cost, judging, latency, loader_speed, log_cost, watch_speed
from holter.infra.bench.figures import Figure, table
from holter.infra.bench.framework_process import FRAMEWORKS
from holter.infra.errors import StackError
from holter.infra.settings import settings_from_env
from holter.infra.stack import Stack

Part = Callable[[Stack, dict[str, str], float], list[Figure]]
_BROKER_ALONE = frozenset({"store", "loader", "watch", "jobmanager", "taskmanager"})
_NUM_BLOCKS = 200
_UNCLIPPED = tuple(name for name in FRAMEWORKS if name.endswith("_unclipped"))
_FRAMEWORKS = tuple(name for name in FRAMEWORKS if name not in ("guard", "hooks", *_UNCLIPPED))


def _step_cost(*names: str) -> Part:
    return lambda stack, environ, scale: frameworks_cost.measure(environ, max(20, round(_NUM_BLOCKS * scale)), names)


PARTS: dict[str, tuple[Part, frozenset[str] | None]] = {
    "latency": (
        lambda stack, environ, scale: latency.measure(stack.state(), environ, round(2000 * scale))[0],
        frozenset({"store", "loader"}),
    ),
    "log": (
        lambda stack, environ, scale: log_cost.measure(environ),
        _BROKER_ALONE,
    ),
    "guard": (_step_cost("guard"), _BROKER_ALONE),
    "hooks": (_step_cost("hooks", *_UNCLIPPED), _BROKER_ALONE),
    "frameworks": (_step_cost(*_FRAMEWORKS), _BROKER_ALONE),
    "judging": (lambda stack, environ, scale: judging.measure(round(40_000 * scale)), None),
    "watch": (
        lambda stack, environ, scale: watch_speed.measure(stack.state(), environ, round(320_000 * scale)),
        frozenset({"store", "loader", "watch"}),
    ),
    "loader": (
        lambda stack, environ, scale: loader_speed.measure(stack.state(), environ, round(160_000 * scale)),
        frozenset({"loader", "watch", "jobmanager", "taskmanager"}),
    ),
}
"""What is measured, and what is left out of the stack meanwhile, so that nothing else takes the cores; None where no
stack is needed."""


def bench(
    only: Annotated[list[str] | None, typer.Option("--only", help=f"Of {', '.join(PARTS)}; may be repeated.")] = None,
    scale: Annotated[float, typer.Option(min=0.01, max=10.0, help="Share of the usual number of samples.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on the last line.")] = False,
) -> None:
    """Measure latency, cost and throughput as ratios against bare parts, or against their targets.

    Exit codes: 0 measured (met or not), 1 something failed. Example: make bench ARGS="--only latency --scale 0.2"
    """
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=160)
    figures: list[Figure] = []
    for name in only or PARTS:
        if name not in PARTS:
            console.print(f"[red]{name} is none of {', '.join(PARTS)}[/red]")
            raise typer.Exit(2)
        console.rule(name)
        figures += on_own_stack(*PARTS[name], scale, console)
    console.print(table(figures))
    if as_json:
        print(json.dumps({figure.name: figure.value for figure in figures}))


def on_own_stack(part: Part, without: frozenset[str] | None, scale: float, console: Console) -> list[Figure]:
    """Measures on a stack that is there for this alone, and stops it again."""
    home = Path(tempfile.mkdtemp(prefix="holter-bench-"))
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("HOLTER_", "KAFKA_"))}
    environ["HOLTER_HOME"] = str(home)
    stack = Stack(settings_from_env({}, home, without or frozenset(), "report"), environ, console)
    try:
        if without is not None:
            stack.up()
        return part(stack, environ, scale)
    except StackError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None
    finally:
        with suppress(StackError):
            stack.down()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    typer.run(bench)
