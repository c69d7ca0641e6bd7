"""Events against the truth, run by run and in sum.

An incident is *hit* by an opening event from five rows before it to ``ONSET_ROWS`` after its first row, and *late* if
one comes only after that. Opening events outside are *false*, once for every episode (an event and what follows within
``MERGE_ROWS``), unless all lie in neutral rows. Precision is of incidents seen (hit or late), recall of those hit.
Actions count wherever they come from, a false one at most once in ``MERGE_ROWS``; the neutral rows do not excuse them.
The Brier score takes the mean probability given from five rows before to ``BRIER_ROWS`` after an incident's first row;
an incident that was seen without one counts as one half.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tests.scoreboard.episodes import MERGE_ROWS, episode_starts
from tests.scoreboard.rule import Event
from tests.scoreboard.truth import Label, TrueIncident, Truth, truth_of

ONSET_ROWS = 20
BRIER_ROWS = 20
UNKNOWN = 0.25
"""The Brier score of one half."""

Figures = dict[str, float | int | None]


@dataclass
class RunScore:
    """Counts of one run; delays are rows from an incident's first row."""

    num_rows: int
    num_healthy_rows: int
    num_hit: int = 0
    num_late: int = 0
    num_false: int = 0
    num_neutral: int = 0
    num_false_actions: int = 0
    num_lost: int = 0
    num_lost_acted: int = 0
    num_healed: int = 0
    num_healed_acted: int = 0
    num_silent: int = 0
    """Incidents seen without a probability."""
    delays: list[int] = field(default_factory=list)
    action_delays: list[int] = field(default_factory=list)
    brier: list[float] = field(default_factory=list)
    missed: list[TrueIncident] = field(default_factory=list)

    @property
    def num_incidents(self) -> int:
        return self.num_lost + self.num_healed


def score_run(num_rows: int, labels: Iterable[Label], events: Iterable[Event]) -> RunScore:
    truth = truth_of(labels)
    kept = sorted((event for event in events if _counts(event)), key=lambda event: event.row)
    opening = _opening(kept)
    score = RunScore(num_rows, max(0, num_rows - truth.num_rows))
    for incident in truth.incidents:
        _score_incident(score, incident, kept, opening)
    _score_false_signals(score, truth, [event.row for event in opening])
    score.num_false_actions = _num_false_actions(truth, kept)
    return score


def _counts(event: Event) -> bool:
    return event.kind != "restart" and not event.kind.startswith("info")


def _opening(events: Sequence[Event]) -> list[Event]:
    known: set[str] = set()
    opening = []
    for event in events:
        if event.incident is None or event.incident not in known:
            opening.append(event)
        if event.incident is not None:
            known.add(event.incident)
    return opening


def _score_incident(score: RunScore, incident: TrueIncident, events: list[Event], opening: list[Event]) -> None:
    around = incident.widened()
    inside = [event for event in events if around.has(event.row)]
    opened = next((event.row - incident.first_row for event in opening if around.has(event.row)), None)
    if opened is None:
        score.missed.append(incident)
    elif opened <= ONSET_ROWS:
        score.num_hit += 1
        score.delays.append(opened)
    else:
        score.num_late += 1
    _score_actions(score, incident, [event.row for event in inside if event.acts])
    _score_probability(score, incident, inside)


def _score_actions(score: RunScore, incident: TrueIncident, rows: list[int]) -> None:
    if incident.recovered:
        score.num_healed += 1
        score.num_healed_acted += bool(rows)
        return
    score.num_lost += 1
    score.num_lost_acted += bool(rows)
    score.action_delays += [row - incident.first_row for row in rows[:1]]


def _score_probability(score: RunScore, incident: TrueIncident, inside: list[Event]) -> None:
    last_row = incident.first_row + BRIER_ROWS
    given = [event.p_recover for event in inside if event.p_recover is not None and event.row <= last_row]
    if given:
        score.brier.append((fmean(given) - incident.recovered) ** 2)
    elif inside:
        score.num_silent += 1


def _score_false_signals(score: RunScore, truth: Truth, rows: list[int]) -> None:
    starts = episode_starts(rows)
    for start in starts:
        episode = [row for row in rows if start <= row <= start + MERGE_ROWS]
        if any(incident.widened().has(row) for row in episode for incident in truth.incidents):
            continue
        if all(any(span.has(row) for span in truth.neutral) for row in episode):
            score.num_neutral += 1
        else:
            score.num_false += 1


def _num_false_actions(truth: Truth, events: list[Event]) -> int:
    around = [incident.widened() for incident in truth.incidents]
    rows = [event.row for event in events if event.acts and not any(span.has(event.row) for span in around)]
    return len(episode_starts(rows))


def total(scores: Iterable[RunScore]) -> Figures:
    """The figures of a table's row, pooled over runs."""
    runs = list(scores)
    num_hit, num_late = (sum(getattr(run, name) for run in runs) for name in ("num_hit", "num_late"))
    num_incidents, num_false = sum(run.num_incidents for run in runs), sum(run.num_false for run in runs)
    recall = num_hit / max(1, num_incidents)
    precision = (num_hit + num_late) / max(1, num_hit + num_late + num_false)
    delays = sorted(delay for run in runs for delay in run.delays)
    return {
        "runs": len(runs),
        "rows": sum(run.num_rows for run in runs),
        "incidents": num_incidents,
        "recall": round(recall, 3),
        "precision": round(precision, 3),
        "f1": round(2.0 * recall * precision / max(1e-9, recall + precision), 3),
        "delay_median": _quantile(delays, 0.5),
        "delay_p90": _quantile(delays, 0.9),
        "false_signals_per_10k": _per_10k(num_false, runs),
        "late": num_late,
        "blip_signals": sum(run.num_neutral for run in runs),
        "false_actions_per_10k": _per_10k(sum(run.num_false_actions for run in runs), runs),
        **_action_figures(runs),
        **_brier_figures(runs),
    }


def _action_figures(runs: list[RunScore]) -> Figures:
    num_lost, num_healed = sum(run.num_lost for run in runs), sum(run.num_healed for run in runs)
    delays = sorted(delay for run in runs for delay in run.action_delays)
    return {
        "lost": num_lost,
        "lost_acted": round(sum(run.num_lost_acted for run in runs) / max(1, num_lost), 3),
        "act_delay_median": _quantile(delays, 0.5),
        "selfheal": num_healed,
        "selfheal_acted": round(sum(run.num_healed_acted for run in runs) / max(1, num_healed), 3),
    }


def _brier_figures(runs: list[RunScore]) -> Figures:
    """None for a detector that gives no probability at all."""
    given = [value for run in runs for value in run.brier]
    values = given + [UNKNOWN] * sum(run.num_silent for run in runs) if given else []
    return {"brier": round(fmean(values), 3) if values else None, "brier_n": len(values)}


def _per_10k(count: int, runs: list[RunScore]) -> float:
    return round(1e4 * count / max(1, sum(run.num_healthy_rows for run in runs)), 2)


def _quantile(ordered: list[int], share: float) -> int | None:
    """The order statistic at ``share`` of the length, rounded down."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
