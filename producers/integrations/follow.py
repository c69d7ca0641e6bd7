"""A run that only writes TensorBoard files, a W&B file or JSON lines, as a run of Holter's: ``holter follow``.

What it writes is read while it does, and judged like any other run. Nothing can be applied: nobody in the training
process asks for actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from holter.producers.integrations.scalars import JsonLines, Scalar, ScalarSource
from holter.producers.integrations.tracked_names import TrackedNames
from holter.producers.run import Beginning, Run


class Followed:
    """Scalars as a run's values. A tag whose steps go back begins a new attempt: of a restart, or a rollback."""

    def __init__(self, run: Run, names: TrackedNames, clock_ms: Callable[[], int]) -> None:
        self._run = run
        self._names = names
        self._clock_ms = clock_ms
        self._last_steps: dict[str, int] = {}
        self.num_scalars = 0

    def take(self, scalars: Iterable[Scalar]) -> int:
        """Returns how many there were, without what Holter wrote itself."""
        before = self.num_scalars
        for scalar in scalars:
            if values := self._names.numbers({scalar.tag: scalar.value}):
                self._log(scalar, values)
        return self.num_scalars - before

    def _log(self, scalar: Scalar, values: Mapping[str, float]) -> None:
        if scalar.step < self._last_steps.get(scalar.tag, 0):
            self._last_steps.clear()
            self._run.begin(Beginning(self._clock_ms(), last_step=scalar.step - 1))
        self._last_steps[scalar.tag] = scalar.step
        self._run.log(values, scalar.step)
        self.num_scalars += 1


def open_source(path: Path) -> ScalarSource:
    """A folder is TensorBoard's, ``.wandb`` a file of W&B's, anything else JSON lines.

    Raises:
        ValueError: there is no such thing, or its library is not installed.
    """
    if not path.exists():
        raise ValueError(f"there is no {path}")
    try:
        if path.is_dir():
            from holter.producers.integrations.event_files import EventFolder

            return EventFolder(path)
        if path.suffix == ".wandb":
            from holter.producers.integrations.wandb_file import WandbFile

            return WandbFile(path)
    except ImportError as error:
        raise ValueError(f"{path} cannot be read: pip install {error.name}") from None
    return JsonLines(path)


def follow_source(source: ScalarSource, followed: Followed, idle_seconds: float, poll_seconds: float) -> None:
    """Until nothing was written for so long; 0 ends with what is there."""
    last_seen = time.monotonic()
    while True:
        if followed.take(source.new_scalars()):
            last_seen = time.monotonic()
        if time.monotonic() - last_seen >= idle_seconds:
            return
        time.sleep(poll_seconds)


def names_by_tag(named: Iterable[str]) -> dict[str, str]:
    """
    >>> names_by_tag(["ce=train/loss"])
    {'ce': 'train/loss'}

    Raises:
        ValueError: one is not TAG=METRIC.
    """
    by_tag: dict[str, str] = {}
    for text in named:
        tag, equals, metric = text.rpartition("=")
        if not equals or not tag or not metric:
            raise ValueError(f"{text!r} is not TAG=METRIC, such as ce=train/loss")
        by_tag[tag] = metric
    return by_tag
