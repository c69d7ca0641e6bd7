"""The numbers behind decisions, each with its bounds, and how a person changes them by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


class SettingError(ValueError):
    """A setting that does not exist or is out of bounds; the message says which and what would do."""


def _number(default: float, least: float, most: float) -> Any:
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True)
class SafetySettings:
    """Steps are executed ones, redone ones counted."""

    cooldown_steps: int = _number(50, 0, 1_000_000)
    """Between an acknowledgement and the next action."""
    urgent_cooldown_steps: int = _number(5, 0, 1_000_000)
    """The same where non-finite values are in the weights and an action was applied: waiting cannot help."""
    action_lifetime_ms: int = _number(60_000, 1_000, 600_000)
    action_window_steps: int = _number(1000, 1, 1_000_000)
    approval_lifetime_ms: int = _number(600_000, 1_000, 600_000)
    """How long a proposed action can be approved, and a person's order carried out."""
    max_age_ms: int = _number(60_000, 1_000, 600_000)
    """Records older than this when they are judged cause no action."""
    max_actions_per_1000_steps: int = _number(5, 0, 1000)
    """Applied ones; what was refused or expired does not count, here and below."""
    max_actions_per_run: int = _number(30, 0, 100_000)
    max_lost_steps: int = _number(3_000, 0, 1_000_000_000)
    """Steps that rollbacks of a run may throw away in all,"""
    max_lost_seconds: float = _number(14_400.0, 0.0, 1e9)
    """job time that they may cost,"""
    max_lost_gpu_seconds: float = _number(3_600_000.0, 0.0, 1e12)
    """and that time on all ranks of the run together."""
    lr_floor: float = _number(0.1, 0.1, 1.0)
    lr_ceiling: float = _number(1.0, 0.1, 1.0)
    max_same_rollbacks: int = _number(2, 1, 100)
    """After so many rollbacks to one checkpoint for one kind of incident it is set aside when that kind comes again."""
    num_remembered: int = _number(64, 8, 256)


@dataclass(frozen=True)
class CostSettings:
    """What the policy ``expected-cost`` reckons with. Steps are of training; shares are fractions."""

    look_steps: float = _number(25.0, 0.0, 100_000.0)
    """Until it is known that waiting, or a cure, did not help."""
    margin_steps: float = _number(3.0, 0.0, 100_000.0)
    """So much cheaper than waiting must an action be."""
    trust: float = _number(0.8, 0.0, 1.0)
    """Share of an estimated time to heal that is believed before it has been waited."""
    patience_steps: float = _number(12.0, 0.0, 100_000.0)
    """What goes on is waited for this long, since going back would meet it again."""
    non_finite_steps: int = _number(6, 1, 1_000)
    """So many losses in a row that are not finite come from the weights, though every update was skipped."""
    pass_over_steps: float = _number(8.0, 0.0, 1_000.0)
    """Where non-finite values came again after a rollback, twice as many steps are let go by before the next, then four
    times as many, and so on: since what is skipped ends where the run is, more of the data is passed over."""
    bad_data_steps: float = _number(8.0, 0.0, 1_000.0)
    """Progress that one step on bad data undoes."""
    unnoticed_steps: float = _number(500.0, 0.0, 1e6)
    """How long a lost run with no way back goes on before a person sees it."""
    restart_seconds: float = _number(600.0, 0.0, 1e6)
    """What it takes a person to start a stopped run again."""
    repeat_chance: float = _number(0.1, 0.0, 1.0)
    """That the same comes again after a rollback past the data;"""
    repeat_chance_ongoing: float = _number(0.8, 0.0, 1.0)
    """while it still goes on, or where the same data is fed again;"""
    repeat_chance_tried: float = _number(0.5, 0.0, 1.0)
    """where it did come again once."""
    reset_steps: float = _number(15.0, 0.0, 10_000.0)
    """What it costs to build the moments anew."""
    poisoned_steps: float = _number(60.0, 0.0, 10_000.0)
    """Progress that moments undo for each factor of ten that an unclipped gradient norm exceeds,"""
    poisoned_ratio: float = _number(30.0, 1.0, 1e6)
    """this multiple of its baseline."""
    lr_cut: float = _number(0.5, 0.1, 1.0)
    ramp_steps: int = _number(200, 0, 1_000_000)
    """After a cut the learning rate, or the clip threshold, is back up after so many steps."""
    clip_factor: float = _number(0.5, 0.01, 1.0)
    prior_weight: float = _number(20.0, 0.0, 1_000.0)
    """What helped on other runs counts for at most so many observations."""


@dataclass(frozen=True)
class PolicySettings:
    safety: SafetySettings = field(default_factory=SafetySettings)
    cost: CostSettings = field(default_factory=CostSettings)


def names() -> list[str]:
    """Every setting that has one.

    >>> names()[0]
    'safety.cooldown_steps'
    """
    parts: Mapping[str, Any] = {"safety": SafetySettings, "cost": CostSettings}
    return [f"{part}.{each.name}" for part, kind in parts.items() for each in fields(kind)]


def adjusted(settings: PolicySettings, numbers: Mapping[str, float]) -> PolicySettings:
    """The settings with some numbers changed, by dotted name.

    Raises:
        SettingError: there is no such setting, or a number is out of its bounds.

    >>> adjusted(PolicySettings(), {"cost.lr_cut": 0.25}).cost.lr_cut
    0.25
    """
    for name, value in numbers.items():
        part, _, field_name = name.partition(".")
        owner = getattr(settings, part, None) if part in ("safety", "cost") else None
        if owner is None or field_name not in owner.__dataclass_fields__:
            raise SettingError(f"there is no setting {name!r}; there are {', '.join(names())}")
        settings = replace(settings, **{part: replace(owner, **{field_name: _checked(owner, name, field_name, value)})})
    return settings


def _checked(owner: Any, name: str, field_name: str, value: float) -> float:
    bounds = owner.__dataclass_fields__[field_name].metadata
    least, most = bounds["least"], bounds["most"]
    if not least <= value <= most:
        raise SettingError(f"{name} is {value:g}, it must be from {least:g} to {most:g}")
    if isinstance(getattr(owner, field_name), int):
        if value != int(value):
            raise SettingError(f"{name} is {value:g}, it must be a whole number")
        return int(value)
    return float(value)
