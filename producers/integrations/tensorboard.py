"""Holter beside TensorBoard::

    run = producers.init(project="my-project")
    writer = SummaryWriter("logs")
    holter_tensorboard.watch(writer, run)

The scalars of this writer are then heard by Holter too, and what Holter sees and does stands in the same folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from holter.producers.integrations.attaching import after_each_call
from holter.producers.integrations.findings import AlertFilter, Finding
from holter.producers.integrations.following import Follower, told
from holter.producers.integrations.mirror import Mirror
from holter.producers.run import Run
from holter.schemas.bounds import Severity

ALERTS_TAG = "holter/alerts"


class Writer(Protocol):
    """A ``SummaryWriter``, of ``torch.utils.tensorboard`` or of ``tensorboardX``."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> Any: ...
    def add_text(self, tag: str, text_string: str, global_step: int | None = None) -> Any: ...
    def flush(self) -> Any: ...


def watch(
    writer: Writer, run: Run, *, names: Mapping[str, str] | None = None, alert_from: Severity = "info"
) -> Callable[[], None]:
    """Replaces ``add_scalar`` of this one writer by a call that also tells Holter. ``run.finish()`` takes that back;
    it comes before ``writer.close()``.

    Findings are scalars ``holter/…`` at their own steps; those of ``alert_from`` and above are sentences under
    :data:`ALERTS_TAG` as well. ``add_scalars``, which writes to folders of its own, is not heard.

    Args:
        names: of the script's tags by Holter's metrics, ``{"ce": "train/loss"}``, where they are not known.

    Returns:
        What takes it back before the end.

    Raises:
        ValueError: the writer is watched already.
    """
    if isinstance(getattr(writer.add_scalar, "__self__", None), _Bridge):
        raise ValueError("Holter watches this SummaryWriter already")
    bridge = _Bridge(writer, run, Mirror(run, names), AlertFilter(alert_from))
    after_each_call(run, "finish", lambda _: bridge.close())
    return bridge.close


class _Bridge:
    def __init__(self, writer: Writer, run: Run, mirror: Mirror, alerts: AlertFilter) -> None:
        self._writer = writer
        self._run = run
        self._mirror = mirror
        self._alerts = alerts
        self._own = writer.add_scalar
        self._follower = Follower(run, self._tell)
        setattr(writer, "add_scalar", self.add_scalar)  # noqa: B010 - a method cannot be assigned to

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """Like ``SummaryWriter.add_scalar``."""
        self._own(tag, scalar_value, global_step, *args, **kwargs)
        told(self._run.notices, lambda: self._hear(tag, scalar_value, global_step or 0))

    def close(self) -> None:
        """Further calls do nothing."""
        self._follower.stop()
        vars(self._writer).pop("add_scalar", None)
        told(self._run.notices, self._writer.flush)

    def _hear(self, tag: str, value: Any, step: int) -> None:
        self._mirror.hear({tag: value}, step, commit=False)
        self._follower.start()

    def _tell(self, finding: Finding) -> None:
        step = self._mirror.last_step if finding.step is None else finding.step
        for name, value in finding.values.items():
            self._own(name, value, step)
        if self._alerts.passes(finding):
            self._writer.add_text(ALERTS_TAG, f"**{finding.title}**: {finding.text}", step)
