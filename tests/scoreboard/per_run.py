"""Which runs a rule fails on."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from tests.scoreboard.score import RunScore


def failures(title: str, scores: Mapping[str, RunScore]) -> Table:
    """Runs with a miss, a late or a false signal, or an action where none was due or none where it was."""
    shown = Table(title=title, title_justify="left")
    for column in ("run", "hit", "late", "missed", "false", "false actions", "lost acted on", "healing acted on"):
        shown.add_column(column)
    for name, score in scores.items():
        if _is_flawed(score):
            missed = ", ".join(f"{'+'.join(sorted(lost.kinds))} at {lost.first_row}" for lost in score.missed)
            shown.add_row(
                name, f"{score.num_hit}/{score.num_incidents}", str(score.num_late), missed, str(score.num_false),
                str(score.num_false_actions), f"{score.num_lost_acted}/{score.num_lost}",
                f"{score.num_healed_acted}/{score.num_healed}",
            )  # fmt: skip
    return shown


def _is_flawed(score: RunScore) -> bool:
    wrong = score.num_false + score.num_false_actions + score.num_healed_acted + score.num_late + len(score.missed)
    return wrong > 0 or score.num_lost_acted < score.num_lost
