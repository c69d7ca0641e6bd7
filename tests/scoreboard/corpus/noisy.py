"""Healthy runs of every noise kind, at one record a step and one in ten."""

from __future__ import annotations

from collections.abc import Iterator

from holter.schemas.telemetry import GRAD_NORM
from tests.scoreboard.noise.kinds import HARDER, NAMES, healthy_run
from tests.scoreboard.truth import LabelledRun

RUN = 50
"""The first number that no fit and no calibration has seen."""


def runs() -> Iterator[LabelledRun]:
    for every in (1, 10):
        for name in NAMES:
            yield LabelledRun(f"noise/{name} @{every}", "noise", healthy_run(name, RUN, every=every), [])
        for name in HARDER:
            yield LabelledRun(f"noise/{name} @{every}", "noise", healthy_run(name, RUN, 3_000, every), [])
    for name in NAMES:
        yield LabelledRun(f"noise/{name}, norm", "noise", healthy_run(name, RUN + 1, metric=GRAD_NORM), [])
