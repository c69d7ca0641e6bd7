"""What `watch` tells a trainer: actions, and which checkpoint is healthy. Both travel signed."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from holter.schemas.bounds import Attempt, Count, EffectName, Id, Millis, Name, Ordinal, Short, Step, Text

LearningRateRatio = Annotated[float, Meta(ge=0.1, le=1.0)]
Authority = Literal["run", "policy", "approval", "person"]
"""By what an action may be applied: the run's own autonomy, a person's ``Policy`` command that freed the effects, a
person's approval of the very action, or a person's order. All but the first go beyond the autonomy that the run
started with; none goes beyond what it allows."""


class LrFactor(Struct, tag_field="effect", tag="lr_factor", omit_defaults=True, frozen=True):
    """Multiply every group's learning rate, present and scheduled, by ``factor`` of what the user configured."""

    factor: LearningRateRatio
    ramp_steps: Count = 0
    """Over how many steps it goes back to 1, evenly; 0 keeps it."""


class MomentumReset(Struct, tag_field="effect", tag="momentum_reset", omit_defaults=True, frozen=True):
    """Clear the optimizer's moments, so that a contaminated history ends."""

    worst_groups: Count = 0
    """Only of so many parameter groups, those whose moments are out of proportion most; 0 is all of them."""


class Rollback(Struct, tag_field="effect", tag="rollback", frozen=True):
    """Restore this checkpoint in a new attempt."""

    checkpoint: Short
    step: Step


class SkipRange(Struct, tag_field="effect", tag="skip_range", frozen=True):
    """Never feed the data that the steps after ``from_step`` consumed, up to the present position, again.

    The trainer turns steps into absolute positions of its loader and keeps the range over rollbacks.
    """

    from_step: Step


class ClipAdjust(Struct, tag_field="effect", tag="clip_adjust", omit_defaults=True, frozen=True):
    """Clip gradients at ``factor`` times the norm that the user configured."""

    factor: Annotated[float, Meta(gt=0.0, le=1.0)]
    ramp_steps: Count = 0
    """As in :class:`LrFactor`."""


class RebuildStage(Struct, tag_field="effect", tag="rebuild_stage", frozen=True):
    stage: Count


class Stop(Struct, tag_field="effect", tag="stop", frozen=True):
    pass


class CheckpointNow(Struct, tag_field="effect", tag="checkpoint_now", frozen=True):
    pass


Effect = LrFactor | MomentumReset | Rollback | SkipRange | ClipAdjust | RebuildStage | Stop | CheckpointNow

_NAMES: dict[type[Effect], EffectName] = {
    LrFactor: "lr_factor",
    MomentumReset: "momentum_reset",
    Rollback: "rollback",
    SkipRange: "skip_range",
    ClipAdjust: "clip_adjust",
    RebuildStage: "rebuild_stage",
    Stop: "stop",
    CheckpointNow: "checkpoint_now",
}


def effect_name(effect: Effect) -> EffectName:
    return _NAMES[type(effect)]


class Action(Struct, tag_field="record", tag="action", omit_defaults=True, frozen=True):
    """Effects to apply together at one step boundary, or not at all.

    It holds for the trainer's clock until ``expires_ts`` and for steps in [``first_step``, ``last_step``]; a later
    attempt, an ordinal at or below the last one handled, or a lower issuer epoch is refused.
    """

    VERSION: ClassVar[int] = 1

    id: Id
    project: Name
    run: Name
    attempt: Attempt
    ordinal: Ordinal
    incident: Id
    effects: Annotated[list[Effect], Meta(min_length=1, max_length=8)]
    decided_ts: Millis
    expires_ts: Millis
    first_step: Step
    last_step: Step
    seq: Count
    issuer_epoch: Count
    reason: Text = ""
    authority: Authority = "run"
    v: int = 1


class Health(Struct, tag_field="record", tag="health", frozen=True):
    """The newest checkpoint of an attempt's line with no incident within the steps after it: a rollback target."""

    VERSION: ClassVar[int] = 1

    id: Id
    project: Name
    run: Name
    attempt: Attempt
    checkpoint: Short
    step: Step
    ts: Millis
    seq: Count
    issuer_epoch: Count
    v: int = 1


Control = Action | Health
