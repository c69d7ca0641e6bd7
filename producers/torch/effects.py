"""Applying an action's effects to a training run: all of them at one boundary, or none."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from holter.producers.bad_batches import BadBatches
from holter.producers.latch import Latched
from holter.producers.torch.batch_contents import Extent
from holter.producers.torch.checkpoint_files import DamagedCheckpoint, Manifest
from holter.producers.torch.checkpoints import Checkpoints
from holter.producers.torch.lineage import Intent, Lineage
from holter.producers.torch.mismatch import Mismatch
from holter.producers.torch.moments import reset_moments, worst_groups
from holter.producers.torch.ramped_factor import MIN_FACTOR
from holter.producers.torch.snapshot import Snapshots
from holter.producers.torch.training_state import TrainingObjects
from holter.schemas.control import (
    CheckpointNow,
    ClipAdjust,
    Effect,
    LrFactor,
    MomentumReset,
    RebuildStage,
    Rollback,
    SkipRange,
    Stop,
)
from holter.schemas.telemetry import EffectReport


class Refused(Exception):
    """The action cannot be applied as a whole; nothing was changed. ``damaged`` names a checkpoint to set aside."""

    def __init__(self, reason: str, damaged: str | None = None) -> None:
        super().__init__(reason)
        self.damaged = damaged


@dataclass(frozen=True)
class Prepared:
    """An action that was checked: what is needed to apply it without a further question."""

    latched: Latched
    skipped: BadBatches | None = None
    manifest: Manifest | None = None
    state: dict[str, Any] | None = None
    load_seconds: float | None = None
    """What reading and verifying the checkpoint took; None from memory, which says nothing of the disk."""
    groups: tuple[int, ...] | None = None
    """The parameter groups whose moments are cleared; None is all."""


@dataclass
class Applied:
    reports: list[EffectReport]
    restored: Prepared | None = None
    """Where the run went back, what it went back to."""
    before: dict[str, Any] | None = None
    """Where weights were replaced, what the run was before."""
    stops: bool = False
    wants_checkpoint: bool = False


class Effects:
    """Prepares first (reads and verifies the checkpoint, turns steps into data), and only then changes anything.

    What may fail comes first (:meth:`begin`) and can be taken back (:meth:`undo`); the rest (:meth:`finish`) cannot
    fail. So several ranks can ask each other in between.
    """

    def __init__(self, objects: TrainingObjects, lineage: Lineage, checkpoints: Checkpoints | None) -> None:
        self._objects = objects
        self._lineage = lineage
        self._checkpoints = checkpoints

    def prepare(self, latched: Latched) -> Prepared:
        """Raises :class:`Refused` when any effect could not be applied."""
        prepared = Prepared(latched)
        effects = latched.action.effects
        if len({type(effect) for effect in effects}) < len(effects):
            raise Refused("an effect is named twice")
        for effect in effects:
            prepared = self._prepare(effect, prepared)
        return prepared

    def begin(self, prepared: Prepared, step: int) -> Applied:
        """Raises :class:`Refused` when it turned out not to work; the run is then as it was."""
        applied = Applied([])
        try:
            self._lineage.announce(_intent(prepared, step))
            for effect in _in_order(prepared, _MAY_FAIL):
                applied.reports.append(self._begin(effect, prepared, step, applied))
        except Exception as error:  # a full disk, a full memory, user classes: half an action must not train on
            self.undo(prepared, applied)
            raise Refused(_reason(error)) from error
        return applied

    def undo(self, prepared: Prepared, applied: Applied) -> None:
        """Makes the run what it was before :meth:`begin`."""
        if applied.before is not None:
            self._objects.load(applied.before)
        self._lineage.settle_intents()
        self._lineage.forget(prepared.skipped)

    def finish(self, prepared: Prepared, applied: Applied, step: int) -> None:
        for effect in _in_order(prepared, _CANNOT_FAIL):
            applied.reports.append(self._finish(effect, prepared, step, applied))

    def _prepare(self, effect: Effect, prepared: Prepared) -> Prepared:
        if isinstance(effect, SkipRange):
            return replace(prepared, skipped=self._range_after(effect.from_step, prepared.latched))
        if isinstance(effect, Rollback):
            begun = time.monotonic()
            manifest, state = self._checkpoint(effect)
            load_seconds = time.monotonic() - begun if manifest.is_on_disk else None
            return replace(prepared, manifest=manifest, state=state, load_seconds=load_seconds)
        if isinstance(effect, MomentumReset) and effect.worst_groups:
            return replace(prepared, groups=tuple(worst_groups(self._objects.optimizer, effect.worst_groups)))
        if isinstance(effect, ClipAdjust) and effect.factor < MIN_FACTOR:
            raise Refused(f"clip factor {effect.factor} is below {MIN_FACTOR}")
        if isinstance(effect, RebuildStage):
            self._check_stage(effect.stage)
        return prepared

    def _begin(self, effect: Effect, prepared: Prepared, step: int, applied: Applied) -> EffectReport:
        if isinstance(effect, SkipRange):
            return self._skip(prepared)
        if isinstance(effect, RebuildStage):
            return self._rebuild(effect.stage, applied)
        assert isinstance(effect, Rollback)
        self._restore(prepared, applied)
        return EffectReport("rollback", float(step), float(effect.step), effect.checkpoint)

    def _finish(self, effect: Effect, prepared: Prepared, step: int, applied: Applied) -> EffectReport:
        if isinstance(effect, MomentumReset):
            return self._reset(prepared)
        if isinstance(effect, LrFactor):
            before = self._objects.learning_rate.factor
            self._objects.learning_rate.set(effect.factor, effect.ramp_steps)
            return EffectReport("lr_factor", before, effect.factor, _ramp(effect.ramp_steps))
        if isinstance(effect, ClipAdjust):
            return self._clip(effect)
        if isinstance(effect, CheckpointNow):
            applied.wants_checkpoint = True
            return EffectReport("checkpoint_now", after=float(step))
        assert isinstance(effect, Stop)
        applied.stops = True
        return EffectReport("stop", after=float(step))

    def _reset(self, prepared: Prepared) -> EffectReport:
        groups = prepared.groups
        detail = "" if groups is None else f"parameter groups {', '.join(map(str, groups))}"
        return EffectReport("momentum_reset", reset_moments(self._objects.optimizer, groups), 0.0, detail[:200])

    def _clip(self, effect: ClipAdjust) -> EffectReport:
        clip = self._objects.clip
        assert clip is not None
        before = clip.factor
        clip.clip_adjust(effect.factor, effect.ramp_steps)
        return EffectReport("clip_adjust", before, clip.factor, _ramp(effect.ramp_steps))

    def _range_after(self, from_step: int, latched: Latched) -> BadBatches:
        data = self._objects.data
        consumed = data.history.consumed_after(from_step)
        if consumed is None:
            raise Refused(f"which data the steps after {from_step} consumed is not known")
        action = latched.action
        return BadBatches(
            *consumed,
            **_positions(data.contents.between(*consumed)),
            first_step=from_step + 1,
            last_step=data.history.last_step,
            action=action.id,
            reason=action.reason or action.incident,
            ts=int(latched.latched_ms),
        )

    def _checkpoint(self, effect: Rollback) -> tuple[Manifest, dict[str, Any]]:
        if self._checkpoints is None:
            raise Refused("this run keeps no checkpoints")
        manifest = self._checkpoints.find(effect.checkpoint)
        if manifest is None:
            raise Refused(self._checkpoints.why_missing(effect.checkpoint), damaged=effect.checkpoint)
        if manifest.step != effect.step:
            raise Refused(f"checkpoint {effect.checkpoint!r} is of step {manifest.step}, not {effect.step}")
        bound = self._lineage.surviving_step(manifest.attempt)
        if bound is None or manifest.step > bound:
            raise Refused(f"checkpoint {effect.checkpoint!r} is not on the surviving line")
        try:
            state = self._checkpoints.read(manifest)
            self._objects.check(state)
        except DamagedCheckpoint as error:
            raise Refused(str(error), damaged=manifest.name) from None
        except (Mismatch, KeyError, TypeError) as error:
            raise Refused(f"checkpoint {effect.checkpoint!r} does not fit: {error}") from None
        return manifest, state

    def _restore(self, prepared: Prepared, applied: Applied) -> None:
        assert prepared.manifest is not None
        assert prepared.state is not None
        before = self._copied()
        applied.before = before
        self._objects.load(prepared.state)
        applied.restored = prepared

    def _check_stage(self, lost: int) -> None:
        stage = self._objects.stage
        if stage is None:
            raise Refused("this run told of no pipeline stages")
        if objection := stage.objection(lost):
            raise Refused(objection)

    def _rebuild(self, lost: int, applied: Applied) -> EffectReport:
        assert self._objects.stage is not None
        applied.before = applied.before or self._copied()  # that of a rollback in the same action is older
        rate = self._objects.stage.rebuild(lost)
        return EffectReport("rebuild_stage", after=rate, detail=f"stage {lost} of its neighbours")

    def _copied(self) -> dict[str, Any]:
        kept = Snapshots()
        state: dict[str, Any] = kept.take(self._objects.state())
        kept.wait()
        return state

    def _skip(self, prepared: Prepared) -> EffectReport:
        assert prepared.skipped is not None
        self._lineage.skip(prepared.skipped)
        first, last = prepared.skipped.first, prepared.skipped.last
        return EffectReport("skip_range", float(first), float(last), f"batches {first} to {last}")


def _intent(prepared: Prepared, step: int) -> Intent:
    action, manifest = prepared.latched.action, prepared.manifest
    name, step = ("", step) if manifest is None else (manifest.name, manifest.step)
    return Intent(action.id, action.attempt, action.ordinal, name, step, prepared.latched.digest)


def _positions(extent: Extent | None) -> dict[str, Any]:
    """What is known of the samples and tokens of a range."""
    if extent is None:
        return {}
    found: dict[str, Any] = {"sample_ids": list(extent.ids)}
    if extent.first_sample is not None and extent.num_samples:
        found |= {"first_sample": extent.first_sample, "last_sample": extent.first_sample + extent.num_samples - 1}
    if extent.first_token is not None and extent.num_tokens:
        found |= {"first_token": extent.first_token, "last_token": extent.first_token + extent.num_tokens - 1}
    return found


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, Refused) else f"it could not be applied: {error!r}"[:500]


def _in_order(prepared: Prepared, kinds: tuple[type[Any], ...]) -> list[Effect]:
    effects = [effect for effect in prepared.latched.action.effects if isinstance(effect, kinds)]
    return sorted(effects, key=lambda effect: kinds.index(type(effect)))


def _ramp(num_steps: int) -> str:
    return f"back to 1 over {num_steps} steps" if num_steps else ""


_MAY_FAIL: tuple[type[Any], ...] = (SkipRange, Rollback, RebuildStage)
_CANNOT_FAIL: tuple[type[Any], ...] = (MomentumReset, LrFactor, ClipAdjust, CheckpointNow, Stop)
"""After the others: they change the state that was gone back to."""
