"""Rows of the table: every rule, and what is fitted, on every corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.scoreboard import learned
from tests.scoreboard.corpus.own import OWN
from tests.scoreboard.rule import Rule
from tests.scoreboard.rules.holter import Holter
from tests.scoreboard.score import Figures, RunScore, score_run, total
from tests.scoreboard.truth import LabelledRun

Corpora = Mapping[str, Sequence[LabelledRun]]
Rows = dict[str, Figures]


def row_name(rule: str, corpus: str) -> str:
    """The corpus that the project makes itself goes without saying."""
    return rule if corpus == OWN else f"{rule} [{corpus}]"


def score_rule(rule: Rule, runs: Sequence[LabelledRun]) -> dict[str, RunScore]:
    return {run.name: score_run(len(run.records), run.labels, rule.events(run.records)) for run in runs}


def rule_rows(
    corpora: Corpora, rules: Sequence[Rule], num_processes: int, progress: Callable[[], None]
) -> Iterator[tuple[str, str, Figures]]:
    """Corpus, rule and figures, in the order of the table; forked processes share the runs."""
    tasks = [(corpus, number) for corpus in corpora for number in range(len(rules))]
    with ProcessPoolExecutor(num_processes, get_context("fork"), initializer=_share, initargs=(corpora, rules)) as pool:
        for (corpus, number), figures in zip(tasks, pool.map(_figures_of_task, tasks), strict=True):
            yield corpus, rules[number].name, figures
            progress()


_shared: tuple[Corpora, Sequence[Rule]] = ({}, ())


def _share(corpora: Corpora, rules: Sequence[Rule]) -> None:
    global _shared  # set once, in a process that exists for it
    _shared = corpora, rules


def _figures_of_task(task: tuple[str, int]) -> Figures:
    corpora, rules = _shared
    corpus, number = task
    return total(score_rule(rules[number], corpora[corpus]).values())


def learned_rows(corpora: Corpora, holter: Holter) -> Iterator[tuple[str, str, Figures]]:
    """The learned detector alone, and as a further signal beside Holter's."""
    alone: dict[str, list[RunScore]] = defaultdict(list)
    both: dict[str, list[RunScore]] = defaultdict(list)
    for corpus, run, own, beside in learned.left_out(corpora, holter):
        alone[corpus].append(score_run(len(run.records), run.labels, own))
        both[corpus].append(score_run(len(run.records), run.labels, beside))
    for corpus in corpora:
        yield corpus, learned.NAME, total(alone[corpus])
        yield corpus, learned.BOTH, total(both[corpus])
