"""Rows of the table: every rule, and what is fitted, on every corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.scoreboard.corpus.own import OWN
from tests.scoreboard.learned import detector as learned
from tests.scoreboard.rule import Event, Rule
from tests.scoreboard.score import Figures, RunScore, score_run, total
from tests.scoreboard.truth import LabelledRun

Corpora = Mapping[str, Sequence[LabelledRun]]
Rows = dict[str, Figures]

BOTH = "Holter + learned"


def row_name(rule: str, corpus: str) -> str:
    """The corpus that the project makes itself goes without saying."""
    return rule if corpus == OWN else f"{rule} [{corpus}]"


def score_rule(rule: Rule, runs: Sequence[LabelledRun]) -> dict[str, RunScore]:
    return {run.name: score_run(len(run.records), run.labels, rule.events(run.records)) for run in runs}


def rule_rows(
    corpora: Corpora, rules: Sequence[Rule], progress: Callable[[], None]
) -> Iterator[tuple[str, str, Figures]]:
    """Corpus, rule and figures."""
    for corpus, runs in corpora.items():
        for rule in rules:
            yield corpus, rule.name, total(score_rule(rule, runs).values())
            progress()


def learned_rows(corpora: Corpora, holter: Rule) -> Iterator[tuple[str, str, Figures]]:
    """The learned detector alone, and as a further signal beside Holter's."""
    for corpus, found in learned.left_out_events(corpora).items():
        runs = corpora[corpus]
        both = [joined(holter.events(run.records), events) for run, events in zip(runs, found, strict=True)]
        yield corpus, learned.NAME, _figures(runs, found)
        yield corpus, BOTH, _figures(runs, both)


def joined(first: Sequence[Event], second: Sequence[Event], apart_rows: int = 20) -> list[Event]:
    """What the first says, and of the second what comes when the first has been silent for some rows."""
    rows = [event.row for event in first]
    return [*first, *(event for event in second if not any(abs(event.row - row) <= apart_rows for row in rows))]


def _figures(runs: Sequence[LabelledRun], found: Sequence[Sequence[Event]]) -> Figures:
    return total(score_run(len(run.records), run.labels, events) for run, events in zip(runs, found, strict=True))
