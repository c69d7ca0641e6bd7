"""One kind of training: what its healthy logs look like, and how it comes to harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.scoreboard.faults import Collapse, Columns, DataBurst, Divergence, Fault, HealingSpike, NotANumber, harmed
from tests.scoreboard.series import records_of
from tests.scoreboard.truth import Label, LabelledRun

Healthy = Callable[[np.random.Generator], Columns]
Harm = Sequence[tuple[float, Fault]]

USUAL_HARMS: tuple[Harm, ...] = (
    ((0.35, HealingSpike()), (0.7, Divergence())),
    ((0.4, DataBurst()), (0.75, HealingSpike(relative=2.0, tau=25.0))),
    ((0.5, Collapse()),),
    ((0.6, NotANumber()),),
)


@dataclass(frozen=True)
class Kind:
    """``every``: steps from row to row; ``step_period``: after so many rows the step starts anew (batch in epoch).

    ``doubtful``: first and last rows of what is meant and yet looks like trouble the first time: neutral.
    """

    name: str
    healthy: Healthy
    harms: Sequence[Harm] = USUAL_HARMS
    every: int = 1
    step_period: int | None = None
    decimals: int | None = None
    doubtful: Sequence[tuple[int, int]] = ()
    num_healthy: int = 2

    def runs(self, seed: int) -> Iterator[LabelledRun]:
        """Two healthy runs, and one for each harm."""
        for number in range(self.num_healthy):
            yield self._run(f"healthy{number}", (), [seed, number])
        for number, harm in enumerate(self.harms):
            yield self._run(f"hurt{number}", harm, [seed, 100 + number])

    def _run(self, name: str, harm: Harm, seed: list[int]) -> LabelledRun:
        random = np.random.default_rng([*seed, sum(self.name.encode())])
        columns, labels = harmed(self.healthy(random), harm, random)
        if self.decimals is not None:
            columns = {metric: np.round(column, self.decimals) for metric, column in columns.items()}
        labels += [Label(first, last, "loss_spike", f"meant{first}", confidence="low") for first, last in self.doubtful]
        size = len(next(iter(columns.values())))
        steps = [row % (self.step_period or size) * self.every for row in range(size)]
        return LabelledRun(f"{self.name}/{name}", self.name, records_of(columns, steps=steps), labels)
