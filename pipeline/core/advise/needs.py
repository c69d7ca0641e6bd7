"""What the advice depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Use = Literal["production", "prototype", "research", "reliability"]
Family = Literal["adam", "sgd", "other"]
CostClass = Literal["$", "$$", "$$$"]
_LEAST_OF_SECOND, _LEAST_OF_THIRD = 1_000.0, 10_000.0
_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Needs:
    """``num_stages`` are those of pipeline parallelism. What is None is not known."""

    num_parameters: float
    use: Use = "production"
    optimizer: Family = "adam"
    num_stages: int = 1
    usd_per_month: float | None = None
    save_seconds: float | None = None
    mtbf_hours: float | None = None

    def cost_class(self) -> CostClass | None:
        if self.usd_per_month is None:
            return None
        if self.usd_per_month < _LEAST_OF_SECOND:
            return "$"
        return "$$" if self.usd_per_month <= _LEAST_OF_THIRD else "$$$"


@dataclass(frozen=True)
class History:
    """Incidents so far, by what was seen first."""

    num_steps: int
    num_gradient: int = 0
    num_update: int = 0
    num_loss: int = 0
    num_nonfinite: int = 0
    num_lost: int = 0

    @property
    def num_incidents(self) -> int:
        return self.num_gradient + self.num_update + self.num_loss + self.num_nonfinite


_GROUPS = {
    "grad_explosion": "num_gradient",
    "update_explosion": "num_update",
    "loss_spike": "num_loss",
    "divergence": "num_loss",
    "level_shift": "num_loss",
    "nan": "num_nonfinite",
    "loss_scale": "num_nonfinite",
}


def history_of(counts: Mapping[str, int], num_lost: int, num_steps: int) -> History:
    """From numbers of incidents by their kind; kinds that no stabiliser can change are left out.

    >>> history_of({"nan": 2, "loss_spike": 1, "divergence": 1, "hang": 5}, 0, 100).num_incidents
    4
    """
    numbers = dict.fromkeys(_GROUPS.values(), 0)
    for kind, count in counts.items():
        if kind in _GROUPS:
            numbers[_GROUPS[kind]] += count
    return History(num_steps, num_lost=num_lost, **numbers)


def parameters_of(text: str) -> float:
    """
    Raises:
        ValueError: it is no number of parameters.

    >>> parameters_of("7B"), parameters_of("124m"), parameters_of("1e9")
    (7000000000.0, 124000000.0, 1000000000.0)
    """
    digits, unit = (text[:-1], _UNITS[text[-1:].upper()]) if text[-1:].upper() in _UNITS else (text, 1.0)
    try:
        number = float(digits) * unit
    except ValueError:
        raise ValueError(f"{text!r} is no number of parameters, such as 124M or 7B") from None
    if not 0 < number < 1e16:
        raise ValueError(f"{text!r} is no number of parameters, such as 124M or 7B")
    return number
