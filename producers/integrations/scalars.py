"""What a tracker wrote down, whatever it writes: values by tag and step, also of a file that is still growing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

_STEPS = ("step", "_step", "global_step", "train/global_step", "iteration", "iter")


class Scalar(NamedTuple):
    tag: str
    value: float
    step: int


class ScalarSource(Protocol):
    def new_scalars(self) -> Iterable[Scalar]:
        """What was written since the last call. Raises :class:`OSError` where it is gone."""
        ...


class JsonLines:
    """A file of one JSON object a line; the step is its ``step``, ``_step``, ``global_step`` or ``iteration``.

    A line without one is one step after the last; what is no object is counted in :attr:`num_unreadable`.
    """

    def __init__(self, path: Path) -> None:
        self.num_unreadable = 0
        self._path = path
        self._position = 0
        self._last_step = 0

    def new_scalars(self) -> Iterator[Scalar]:
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is being written
                self._position += len(line)
                yield from self._scalars(line)

    def _scalars(self, line: bytes) -> Iterator[Scalar]:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            step = step_of(row)
            self._last_step = self._last_step + 1 if step is None else step
            yield from row_scalars(row, self._last_step)
        elif line.strip():
            self.num_unreadable += 1


def step_of(row: Mapping[str, Any]) -> int | None:
    """
    >>> step_of({"_step": 3.0, "loss": 1.0}), step_of({"loss": 1.0})
    (3, None)
    """
    found = (row[name] for name in _STEPS if isinstance(row.get(name), (int, float)) and row[name] >= 0)
    return next((int(step) for step in found), None)


def row_scalars(row: Mapping[str, Any], step: int, prefix: str = "") -> Iterator[Scalar]:
    """The numbers of a row but its step, those in objects inside it as ``outer/inner``.

    >>> list(row_scalars({"step": 1, "loss": 2.0, "eval": {"loss": 3}}, 1))
    [Scalar(tag='loss', value=2.0, step=1), Scalar(tag='eval/loss', value=3.0, step=1)]
    """
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from row_scalars(value, step, f"{prefix}{name}/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and name not in _STEPS:
            yield Scalar(f"{prefix}{name}", float(value), step)
