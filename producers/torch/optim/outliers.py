"""Which steps are unlike the recent ones, decided on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from holter.producers.torch.clip.window import appended


class Outliers:
    """Keeps one ring for every named value. ``judge`` asks, ``learn`` ends the step."""

    def __init__(
        self, names: Sequence[str], max_score: float, window: int, max_in_a_row: int, device: torch.device
    ) -> None:
        if not (max_score > 0 and window >= 2 and max_in_a_row >= 1):
            raise ValueError("skip-step needs max_score > 0, window ≥ 2 and max_in_a_row ≥ 1")
        self._max_score, self._max_in_a_row = max_score, max_in_a_row
        self._min_samples = min_samples(window)
        count = torch.zeros((), dtype=torch.int64, device=device)
        self._rings = {name: torch.zeros(window, device=device) for name in names}
        self._counts = dict.fromkeys(names, count)
        self._in_a_row = self.num_skipped = self.num_nonfinite = count
        self._values: dict[str, torch.Tensor] = {}
        self._is_finite = self._is_like = torch.ones((), dtype=torch.bool, device=device)

    def judge(self, values: Mapping[str, torch.Tensor], is_finite: torch.Tensor) -> torch.Tensor:
        """Whether to take the step; a device flag. ``is_finite`` says what else is to be."""
        device = self._in_a_row.device
        self._values = {name: value.detach().to(device, torch.float32) for name, value in values.items()}
        self._is_finite = torch.stack([is_finite.to(device), *map(torch.isfinite, self._values.values())]).all()
        self._is_like = torch.stack([self._resembles(name, value) for name, value in self._values.items()]).all()
        return self._is_finite & (self._is_like | (self._in_a_row + 1 >= self._max_in_a_row))

    def learn(self, taken: torch.Tensor) -> None:
        """Of a step that was taken, its values; of one that was not, that it was left out.

        A step that was taken although it is unlike the others starts the window anew: what came before is past.
        """
        taken = taken & self._is_finite
        is_new = taken & ~self._is_like
        for name, value in self._values.items():
            count = torch.where(is_new, 0, self._counts[name])
            ring = appended(self._rings[name], count, value)
            self._rings[name] = torch.where(taken, ring, self._rings[name])
            self._counts[name] = count + taken
        suspicious = self._is_finite & ~taken
        self._in_a_row = torch.where(taken, 0, self._in_a_row + suspicious)
        self.num_skipped = self.num_skipped + suspicious
        self.num_nonfinite = self.num_nonfinite + ~self._is_finite

    def state(self) -> dict[str, torch.Tensor]:
        counters = {"in_a_row": self._in_a_row, "num_skipped": self.num_skipped, "num_nonfinite": self.num_nonfinite}
        rings = {f"{name}_values": ring for name, ring in self._rings.items()}
        return {**counters, **rings, **{f"{name}_count": count for name, count in self._counts.items()}}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Raises :class:`ValueError` when the window was another."""
        if any(state[f"{name}_values"].shape != ring.shape for name, ring in self._rings.items()):
            raise ValueError("the state of skip-step is of another window")
        here = {name: value.to(self._in_a_row.device, copy=True) for name, value in state.items()}
        self._rings = {name: here[f"{name}_values"] for name in self._rings}
        self._counts = {name: here[f"{name}_count"] for name in self._counts}
        self._in_a_row = here["in_a_row"]
        self.num_skipped, self.num_nonfinite = here["num_skipped"], here["num_nonfinite"]

    def _resembles(self, name: str, value: torch.Tensor) -> torch.Tensor:
        ring, count = self._rings[name], self._counts[name]
        num_values = count.clamp(max=ring.numel())
        is_known = torch.arange(ring.numel(), device=ring.device) < num_values
        mean = torch.where(is_known, ring, 0.0).sum() / num_values
        variance = torch.where(is_known, (ring - mean).square(), 0.0).sum() / (num_values - 1)
        is_near = (value - mean).abs() <= self._max_score * variance.sqrt()
        return is_near | (num_values < self._min_samples)


def min_samples(window: int) -> int:
    """How many values it takes to judge another.

    >>> min_samples(128), min_samples(16)
    (64, 16)
    """
    return min(window, max(20, window // 2))
