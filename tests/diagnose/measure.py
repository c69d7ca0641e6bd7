"""``python -m tests.diagnose.measure``: L4 over synthetic failures of 64 nodes, beside a search for "error"."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from holter.pipeline.diagnose.comparable import Job as LogsOfJob
from holter.pipeline.diagnose.diagnosis import diagnose
from tests.diagnose.scoring import Score, answer_of, grep, score
from tests.diagnose.synthetic.faults import FAULTS
from tests.diagnose.synthetic.job import STYLES, Job, Plan, Truth

NUM_GOOD = 3
PUBLISHED = {"precision": 0.786, "recall": 0.982, "f1": 0.873, "top1": 0.658, "top5": 0.8}


def trial(folder: Path, fault: str, seed: int, num_nodes: int = 64, num_iterations: int = 70) -> dict[str, Any]:
    """Writes a failed job and three that succeeded, and scores both ways."""
    style = STYLES[(seed + seed // len(FAULTS)) % len(STYLES)]
    truth = Job(Plan(seed, style, num_nodes, num_iterations, FAULTS[fault])).write(folder / "failed")
    good = [folder / f"good{number}" for number in range(NUM_GOOD)]
    for number, each in enumerate(good, 1):
        Job(Plan(seed + 100_000 * number, style, num_nodes, num_iterations)).write(each)
    failed = LogsOfJob(folder / "failed")
    answers = {
        "L4": answer_of(diagnose(failed, [LogsOfJob(each) for each in good])),
        "alone": answer_of(diagnose(failed)),
        "grep": grep(failed.folder),
    }
    scores = {name: score(answer, truth, failed.folder) for name, answer in answers.items()}
    return {"fault": fault, "style": style, "truth": truth, **scores}


def trials(num_failures: int, first_seed: int, num_nodes: int) -> Iterator[dict[str, Any]]:
    faults = list(FAULTS)
    for number in range(num_failures):
        with tempfile.TemporaryDirectory() as folder:
            yield trial(Path(folder), faults[number % len(faults)], first_seed + number, num_nodes)


def summary(scores: Sequence[Score]) -> dict[str, float | None]:
    """Over all failures; an iteration that is not told counts as one that is far off, not in the median."""
    precision = sum(each.num_right for each in scores) / max(1, sum(each.num_reported for each in scores))
    recall = sum(each.num_found for each in scores) / max(1, sum(each.num_injected for each in scores))
    off = [each.iterations_off for each in scores if each.iterations_off is not None]
    told = [each for each in scores if each.has_onset]
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / max(1e-9, precision + recall),
        "top1": _share([each.top1 for each in scores]),
        "top5": _share([each.top5 for each in scores]),
        "median_iterations_off": median(off) if off else None,
        "within_2_iterations": sum(each <= 2 for each in off) / max(1, len(told)),
    }


def _share(hits: Sequence[bool | None]) -> float:
    known = [each for each in hits if each is not None]
    return sum(known) / max(1, len(known))


def levels(truths: Sequence[Truth]) -> dict[str, float]:
    """Shares of the injected texts by level."""
    counts = Counter(level or "none" for truth in truths for level, _ in set(truth.events.values()))
    return {level: count / counts.total() for level, count in counts.most_common()}


def measure(
    failures: Annotated[int, typer.Option(min=1, help="Synthetic failures, their kinds in turn.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Of the first.")] = 0,
    nodes: Annotated[int, typer.Option(min=4, help="Of each job.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Measure L4 and a search for "error" on synthetic logs.

    Example: python -m tests.diagnose.measure --failures 48 --seed 1000
    """
    console = Console(stderr=as_json)
    done = list(track(trials(failures, seed, nodes), "failures", failures, console=console, transient=True))
    found = {name: summary([each[name] for each in done]) for name in ("L4", "alone", "grep")}
    console.print(_by_fault(done))
    console.print(_table(found, failures, nodes))
    shares = levels([each["truth"] for each in done])
    console.print("injected texts by level: " + ", ".join(f"{name} {share:.1%}" for name, share in shares.items()))
    if as_json:
        print(json.dumps(found))


def _table(found: dict[str, dict[str, float | None]], num_failures: int, num_nodes: int) -> Table:
    shown = Table(title=f"{num_failures} synthetic failures of {num_nodes} nodes, {NUM_GOOD} comparable jobs each")
    for column in ("", "published", "here", "here, without those jobs", 'search for "error"'):
        shown.add_column(column, justify="left" if not column else "right")
    for name in found["L4"]:
        published = f"{PUBLISHED[name]:.3f}" if name in PUBLISHED else "–"
        shown.add_row(name.replace("_", " "), published, *(_shown(figures[name]) for figures in found.values()))
    return shown


def _shown(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.3f}"


def _by_fault(done: Sequence[dict[str, Any]]) -> Table:
    shown = Table(title="By fault")
    for column in ("fault", "right / reported", "found / injected", "top 1, 5", "iterations off"):
        shown.add_column(column)
    for each in done:
        ours = each["L4"]
        shown.add_row(
            f"{each['fault']} ({each['style']})",
            f"{ours.num_right} / {ours.num_reported}",
            f"{ours.num_found} / {ours.num_injected}",
            f"{ours.top1}, {ours.top5}",
            str(ours.iterations_off),
        )
    return shown


if __name__ == "__main__":
    typer.run(measure)
