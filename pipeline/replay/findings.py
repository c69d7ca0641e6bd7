"""What was said of one incident, put together from its events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holter.pipeline.core.decide.policy import MONITOR
from holter.pipeline.replay.judge import Event


@dataclass(frozen=True)
class Advice:
    """What a policy would have done of an incident, first of all, and why; at its end ``monitor`` if nothing."""

    policy: str
    action: str
    row: int
    step: int
    reason: str

    @property
    def acts(self) -> bool:
        return self.action != MONITOR


@dataclass(frozen=True)
class Finding:
    """
    Attributes:
        kinds: everything that it was said to be, in the order of saying.
        row, step: where it was first said.
        onset_step: where it began, as seen from there.
        state: the last one.
        peak: the highest loss in it, NaN where none is known.
        p_first, p_lowest, p_last: the probability that it heals by itself: as first said, at the worst, as last said.
        seen: the first explanation.
    """

    incident: str
    kinds: tuple[str, ...]
    row: int
    step: int
    onset_step: int
    last_row: int
    last_step: int
    state: str
    peak: float
    p_first: float | None
    p_lowest: float | None
    p_last: float | None
    seen: str
    advice: tuple[Advice, ...]


def findings(events_by_policy: dict[str, Sequence[Event]]) -> list[Finding]:
    """The incidents in their order. The events of all policies are of the same stages, so all tell the same ones."""
    first = next(iter(events_by_policy.values()), ())
    advice: dict[str, list[Advice]] = {}
    for policy, events in events_by_policy.items():
        for incident, own in by_incident(events).items():
            advice.setdefault(incident, []).append(_advice(policy, own))
    return [_finding(own, tuple(advice[incident])) for incident, own in by_incident(first).items()]


def by_incident(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Notices, which belong to none, are left out."""
    grouped: dict[str, list[Event]] = {}
    for event in events:
        if not event.is_notice:
            grouped.setdefault(event.incident, []).append(event)
    return grouped


def _finding(events: list[Event], advice: tuple[Advice, ...]) -> Finding:
    first, last = events[0], events[-1]
    signals = [event.signal for event in events if event.signal is not None]
    chances = [event.p_recover for event in events if event.p_recover is not None and not math.isnan(event.p_recover)]
    return Finding(
        incident=first.incident,
        kinds=tuple(dict.fromkeys(event.kind for event in events)),
        row=first.row,
        step=first.step,
        onset_step=signals[0].onset_step if signals else first.step,
        last_row=last.row,
        last_step=last.step,
        state=last.state,
        peak=signals[-1].peak if signals and math.isfinite(signals[-1].peak) else math.nan,
        p_first=chances[0] if chances else None,
        p_lowest=min(chances, default=None),
        p_last=chances[-1] if chances else None,
        seen=signals[0].explanation.partition(";")[0] if signals else "",
        advice=advice,
    )


def _advice(policy: str, events: list[Event]) -> Advice:
    """The first choice to act; of an incident that was only watched the choice where recovery was least likely."""
    acts = [event for event in events if event.action != MONITOR]
    open_ = [event for event in events if event.phase != "close"] or events
    told = acts[0] if acts else min(open_, key=lambda event: 1.0 if event.p_recover is None else event.p_recover)
    return Advice(policy, told.action, told.row, told.step, told.reason)
