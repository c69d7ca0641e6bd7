"""Holter beside Weights & Biases::

    run = producers.init(project="my-project")
    tracked = wandb.init(project="my-project")
    holter_wandb.watch(tracked, run)

What is logged to W&B is then heard by Holter too, and what Holter sees and does stands in the same W&B run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import wandb

from holter.producers.integrations.attaching import after_each_call
from holter.producers.integrations.findings import AlertFilter, Finding
from holter.producers.integrations.following import Follower, told
from holter.producers.integrations.mirror import Mirror
from holter.producers.run import Run
from holter.schemas.bounds import Severity

_LEVELS: Mapping[Severity, str] = {"info": "INFO", "warning": "WARN", "critical": "ERROR"}
_MAX_WAITING = 1_000


def watch(
    tracked: wandb.Run,
    run: Run,
    *,
    names: Mapping[str, str] | None = None,
    step_name: str | None = None,
    alert_from: Severity = "warning",
) -> Callable[[], None]:
    """Replaces ``log`` of this one W&B run, and ``wandb.log`` where it is the current one, by calls that also tell
    Holter. ``run.finish()`` takes that back; it comes before ``tracked.finish()``.

    Findings are columns ``holter/…`` of the next row that the script logs, so that no row or step of W&B's is added;
    alerts go out at once.

    Args:
        names: of the script's columns by Holter's metrics, ``{"ce": "train/loss"}``, where they are not known.
        step_name: of a column that holds the step; else it is that of W&B.
        alert_from: the least severity that calls ``tracked.alert``. An applied action is a warning.

    Returns:
        What takes it back before the end.

    Raises:
        ValueError: the W&B run is watched already.
    """
    if isinstance(getattr(tracked.log, "__self__", None), _Bridge):
        raise ValueError(f"Holter watches the W&B run {tracked.name!r} already")
    bridge = _Bridge(tracked, run, Mirror(run, names, step_name), AlertFilter(alert_from))
    after_each_call(run, "finish", lambda _: bridge.close())
    return bridge.close


class _Bridge:
    def __init__(self, tracked: wandb.Run, run: Run, mirror: Mirror, alerts: AlertFilter) -> None:
        self._tracked = tracked
        self._run = run
        self._mirror = mirror
        self._alerts = alerts
        self._next_row = tracked.starting_step
        self._waiting: deque[Mapping[str, float]] = deque(maxlen=_MAX_WAITING)
        self._own_log, self._module_log = tracked.log, wandb.log
        self._follower = Follower(run, self._tell)
        self._heard = self.log
        setattr(tracked, "log", self._heard)  # noqa: B010 - a method cannot be assigned to
        if wandb.run is tracked:
            wandb.log = self._heard

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """Like ``wandb.Run.log``."""
        self._own_log(self._with_findings(data), step=step, commit=commit)
        told(self._run.notices, lambda: self._hear(data, step, commit))

    def close(self) -> None:
        """Further calls do nothing. What waits for a row goes into the present one."""
        self._follower.stop()
        vars(self._tracked).pop("log", None)
        if wandb.log is self._heard:
            wandb.log = self._module_log
        while self._waiting:
            told(self._run.notices, lambda: self._own_log(self._with_findings({}), commit=len(self._waiting) > 0))

    def _hear(self, data: Mapping[str, Any], step: int | None, commit: bool | None) -> None:
        """Counts rows as W&B does: a step of the caller's raises them, a committed row ends."""
        row = self._next_row if step is None else step
        is_done = commit or (commit is None and step is None)
        self._next_row = max(self._next_row, row) + bool(is_done)
        self._mirror.hear(data, row, bool(is_done))
        self._follower.start()

    def _tell(self, finding: Finding) -> None:
        self._waiting.append(finding.values)
        if self._alerts.passes(finding):
            self._tracked.alert(finding.title, finding.text, level=_LEVELS[finding.severity])

    def _with_findings(self, data: dict[str, Any]) -> dict[str, Any]:
        """What waits, up to the second value of one column: a row has one."""
        if not self._waiting or not isinstance(data, Mapping):
            return data
        row = dict(data)
        while self._waiting and not row.keys() & self._waiting[0].keys():
            row.update(self._waiting.popleft())
        return row
