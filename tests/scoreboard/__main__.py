"""``make scoreboard``: Holter beside other people's rules, one table for each corpus."""

from __future__ import annotations

import json
import os
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from tests.scoreboard.board import Corpora, Rows, learned_rows, row_name, rule_rows, score_rule
from tests.scoreboard.corpus.own import CORPORA
from tests.scoreboard.folder import runs_of
from tests.scoreboard.per_run import failures
from tests.scoreboard.rule import Rule
from tests.scoreboard.rules.all_rules import RULES
from tests.scoreboard.rules.holter import Holter
from tests.scoreboard.search import report
from tests.scoreboard.search.leave_out import Plan
from tests.scoreboard.table import caption, table

TRACES_VARIABLE = "HOLTER_SCOREBOARD_TRACES"


class LeaveOut(str, Enum):
    FAMILY = "family"


def scoreboard(
    traces: Annotated[
        list[Path] | None,
        typer.Option(help=f"A folder of labelled runs; may be repeated. Else {TRACES_VARIABLE}, separated by colons."),
    ] = None,
    own: Annotated[bool, typer.Option(help="The corpora that the project makes itself.")] = True,
    torch: Annotated[bool, typer.Option(help="Runs trained on the spot among them (under a minute).")] = True,
    only: Annotated[list[str] | None, typer.Option("--only", help="Rules whose name holds this word.")] = None,
    learned: Annotated[bool, typer.Option(help="Fit and score the learned detector (a minute or two).")] = True,
    leave_out: Annotated[
        LeaveOut | None, typer.Option(help="Choose the constants on all other families of the given folders.")
    ] = None,
    candidates: Annotated[int, typer.Option(min=1, help="Random candidates of that search.")] = 60,
    rounds: Annotated[int, typer.Option(min=0, help="Rounds of neighbours of the best ones.")] = 2,
    processes: Annotated[int, typer.Option(min=1, max=16)] = 2,
    per_run: Annotated[bool, typer.Option("--per-run", help="Also the runs that Holter fails on.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on the last line.")] = False,
) -> None:
    """Score Holter and its peers.

    Exit codes: 0 scored, 2 a folder or a rule is not there. Example: make scoreboard ARGS="--traces DIR --only Holter"
    """
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console.width = 150
    folders = traces if traces is not None else _folders_of_environment()
    rules = _rules(only)
    if leave_out and not folders:
        raise typer.BadParameter("--leave-out needs folders of labelled runs: give --traces DIR")
    corpora = _corpora(folders, own, torch)
    rows = _score(corpora, rules, learned, processes, console)
    if leave_out:
        found = report.run_search(folders, Plan(num_random=candidates, num_rounds=rounds), processes, console)
        rows |= {row_name(report.NAME, folder): figures for folder, figures in found.items()}
        for folder, figures in found.items():
            console.print(table(folder, {report.NAME: figures}))
    if per_run:
        for corpus, runs in corpora.items():
            console.print(failures(corpus, score_rule(rules[0], runs)))
    if as_json:
        print(json.dumps({"rows": rows}))


def _folders_of_environment() -> list[Path]:
    return [Path(part) for part in os.environ.get(TRACES_VARIABLE, "").split(os.pathsep) if part]


def _rules(only: list[str] | None) -> list[Rule]:
    found = [rule for rule in RULES if not only or any(word.lower() in rule.name.lower() for word in only)]
    if not found:
        raise typer.BadParameter(f"no rule is named so; there are: {', '.join(rule.name for rule in RULES)}")
    return found


def _corpora(folders: list[Path], own: bool, torch: bool) -> Corpora:
    made = {name: make(torch) for name, make in CORPORA.items()} if own else {}
    try:
        return made | {folder.name: list(runs_of(folder)) for folder in folders}
    except FileNotFoundError as error:
        raise typer.BadParameter(f"{error.filename} is missing: a folder of labelled runs has it") from error


def _score(corpora: Corpora, rules: list[Rule], learned: bool, processes: int, console: Console) -> Rows:
    rows: Rows = {}
    by_corpus: dict[str, Rows] = {corpus: {} for corpus in corpora}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("rules", total=len(corpora) * len(rules))
        found = list(rule_rows(corpora, rules, processes, lambda: progress.advance(task)))
    if learned:
        found += learned_rows(corpora, Holter())
    for corpus, rule, figures in found:
        by_corpus[corpus][rule] = rows[row_name(rule, corpus)] = figures
    for corpus, shown in by_corpus.items():
        console.print(table(f"{corpus}: {caption(next(iter(shown.values())))}", shown))
    return rows


if __name__ == "__main__":
    typer.run(scoreboard)
