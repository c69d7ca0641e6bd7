"""The matrix with a progress display."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from holter.infra.rescue import matrix
from holter.infra.rescue.arm import Arm, ArmResult
from holter.infra.rescue.lockstep import Pace
from holter.infra.rescue.results import Results


def run_with_progress(
    wanted: matrix.Matrix, results: Results, pace: Pace, num_jobs: int, console: Console
) -> list[ArmResult]:
    """Raises:
    ArmsFailed: after all others were run.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TimeRemainingColumn(), TextColumn("{task.fields[note]}"))  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("runs", total=len(wanted.arms()), note="unhurt beginnings first")

        def on_done(arm: Arm, result: ArmResult) -> None:
            loss = "lost" if result.final_loss is None else f"{result.final_loss:.3f}"
            progress.update(task, advance=1, note=f"{arm.name} {loss}")
            if not console.is_terminal:
                console.print(f"{arm.name} {loss}", highlight=False)

        return matrix.run(wanted, results, pace, num_jobs, on_done)
