"""What a policy may look at, and what it answers with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from holter.pipeline.core.decide.checkpoints import Checkpoint
from holter.pipeline.core.decide.course import Course
from holter.pipeline.core.incidents import Incident
from holter.schemas.bounds import EffectName
from holter.schemas.commands import Prior
from holter.schemas.control import Effect, Rollback, SkipRange, effect_name
from holter.schemas.decisions import Option

MONITOR = "monitor"


class Situation(NamedTuple):
    """All that a policy may look at. ``step`` is the last judged one."""

    incident: Incident
    step: int
    non_finite: bool
    """Whether non-finite values may have reached the weights."""
    outside_band: bool
    checkpoint: Checkpoint | None
    """The newest healthy one of before the onset."""
    load_seconds: float
    step_seconds: float
    """0 where it is not known."""
    lr_factor: float
    older_checkpoints: tuple[Checkpoint, ...] = ()
    """Healthy ones before that, the newest first."""
    course: Course | None = None
    """How the incident went so far; None where only the incident itself is known."""
    applicable: Collection[EffectName] | None = None
    """Effects that may come into question; None is all of them."""
    num_tried: Mapping[str, int] = {}
    """How often the run went back to a checkpoint, by name, because of this kind of incident."""
    helped: Mapping[str, Prior] = {}
    """What helped on this run, by kind of incident and effect."""
    priors: Mapping[str, Prior] = {}
    """What helped on others."""
    clips: bool = False
    """Whether the trainer clips gradients: an exploded one then does not reach the moments."""
    lr_floor: float = 0.1
    num_alike: int = 0
    """Earlier incidents of this kind in this run."""

    def can(self, *effects: EffectName) -> bool:
        return self.applicable is None or all(effect in self.applicable for effect in effects)


class Choice(NamedTuple):
    name: str
    effects: tuple[Effect, ...]
    reason: str
    options: tuple[Option, ...] = ()
    """Everything that was weighed, where the policy weighs."""


Policy = Callable[[Situation], Choice]


def effect_names(choice: Choice) -> list[EffectName]:
    return [effect_name(effect) for effect in choice.effects]


def wait(reason: str) -> Choice:
    return Choice(MONITOR, (), reason)


def roll_back(situation: Situation, reason: str) -> Choice:
    """Back, past the data since the onset: the same data is never replayed into the same state."""
    target = situation.checkpoint
    if target is None:
        return wait(f"{reason}, but no healthy checkpoint is known")
    return Choice("rollback", (Rollback(target.name, target.step), skip_from_onset(situation)), reason)


def skip_from_onset(situation: Situation) -> SkipRange:
    return SkipRange(max(0, situation.incident.onset_step - 1))
