"""The row of the search, and what was chosen how often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from holter.pipeline.core.signals import SignalSettings
from tests.scoreboard.score import Figures, total
from tests.scoreboard.search.evaluate import Evaluator
from tests.scoreboard.search.leave_out import LeftOut, Plan, search
from tests.scoreboard.search.space import space_around

NAME = "Holter, family left out"


def run_search(folders: list[Path], plan: Plan, num_processes: int, console: Console) -> dict[str, Figures]:
    """Figures by folder; says how many candidates there were and which values were chosen."""
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("candidates", total=None)
        with Evaluator(folders, num_processes, lambda done: progress.update(task, completed=done)) as evaluator:
            found = search(evaluator, space_around(SignalSettings()), plan)
    console.print(summary(found))
    return {folder: total(scores) for folder, scores in found.scores.items()}


def summary(found: LeftOut) -> str:
    choices = [candidate.choice for candidate in found.chosen.values()]
    lines = [f"{found.num_candidates} candidates; values chosen for {len(choices)} left-out families:"]
    for path in choices[0]:
        counts = Counter(choice[path] for choice in choices)
        lines.append(f"  {path}: " + ", ".join(f"{value:g} x {count}" for value, count in counts.most_common()))
    return "\n".join(lines)
