"""What a tracker is shown of Holter: numbers to draw, and a sentence to alert with."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from holter.producers.handover import Response
from holter.producers.integrations.tracked_names import OWN_PREFIX
from holter.schemas.bounds import Severity
from holter.schemas.signals import Signal

LEVELS: dict[Severity, float] = {"info": 1.0, "warning": 2.0, "critical": 3.0}
"""As drawn; 0 is a closed incident."""
_MAX_REMEMBERED = 1_000


@dataclass(frozen=True)
class Finding:
    """
    Attributes:
        step: where it was seen or done; None where the run has not said.
        values: by the names of the tracker's charts.
        identity: equal for what is to be alerted once.
    """

    step: int | None
    values: Mapping[str, float]
    severity: Severity
    title: str
    text: str
    identity: str


class AlertFilter:
    """Passes findings of a severity and above, each once. Thread-safe enough: at worst one is alerted twice."""

    def __init__(self, least: Severity) -> None:
        self._least = LEVELS[least]
        self._seen: deque[str] = deque(maxlen=_MAX_REMEMBERED)

    def passes(self, finding: Finding) -> bool:
        if LEVELS[finding.severity] < self._least or finding.identity in self._seen:
            return False
        self._seen.append(finding.identity)
        return True


class Tell(Protocol):
    def __call__(self, finding: Finding, /) -> None: ...


def signal_finding(signal: Signal) -> Finding:
    """``holter/<kind>`` is the severity from 1 to 3, and 0 once the incident is closed."""
    is_over = signal.phase == "close"
    if signal.is_notice:
        return _notice_finding(signal)
    name = f"{OWN_PREFIX}{signal.kind}"
    values = {name: 0.0 if is_over else LEVELS[signal.severity]}
    if signal.p_recover is not None:
        values[f"{name}/p_recover"] = signal.p_recover
    severity: Severity = "info" if is_over else signal.severity
    verb = "is over" if is_over else "began"
    return Finding(
        step=signal.step,
        values=values,
        severity=severity,
        title=f"Holter: {signal.kind} {verb} at step {signal.step if is_over else signal.onset_step}"[:63],
        text=signal.explanation or f"{signal.metric} {signal.value:g}, before {signal.baseline:g} ({signal.state})",
        identity=f"{signal.incident} {severity} {is_over}",
    )


def _notice_finding(signal: Signal) -> Finding:
    return Finding(
        step=signal.step,
        values={f"{OWN_PREFIX}{signal.kind}": LEVELS["info"]},
        severity="info",
        title=f"Holter: {signal.kind} at step {signal.step}"[:63],
        text=signal.explanation,
        identity=signal.id,
    )


def answer_finding(answer: Response) -> Finding:
    """``holter/action/<effect>`` is 1 where it was applied, with its new value beside; else the status is a column."""
    done = answer.status == "applied"
    values = {} if done else {f"{OWN_PREFIX}action/{answer.status}": 1.0}
    for effect in answer.effects if done else ():
        values[f"{OWN_PREFIX}action/{effect.effect}"] = 1.0
        if effect.after is not None:
            values[f"{OWN_PREFIX}action/{effect.effect}/after"] = effect.after
    what = ", ".join(effect.effect for effect in answer.effects) or "an action"
    at = "" if answer.step is None else f" at step {answer.step}"
    return Finding(
        step=answer.step,
        values=values,
        severity="warning" if done else "info",
        title=f"Holter: {what} {answer.status}{at}"[:63],
        text=answer.reason or f"action {answer.action}, {answer.ordinal} of this attempt",
        identity=f"{answer.action} {answer.status}",
    )
