"""Applying an action's effects to a training run: all of them at one boundary, or none."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from holter.producers.latch import Latched
from holter.producers.torch.checkpoint_files import CheckpointFiles, DamagedCheckpoint, Manifest
from holter.producers.torch.lineage import Intent, Lineage, SkippedRange
from holter.producers.torch.mismatch import Mismatch
from holter.producers.torch.moments import reset_moments
from holter.producers.torch.snapshot import Snapshots
from holter.producers.torch.training_state import TrainingObjects
from holter.schemas.control import CheckpointNow, Effect, LrFactor, MomentumReset, Rollback, SkipRange, Stop
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
    skipped: SkippedRange | None = None
    manifest: Manifest | None = None
    state: dict[str, Any] | None = None
    load_seconds: float | None = None
    """What reading and verifying the checkpoint took."""


@dataclass
class Applied:
    reports: list[EffectReport]
    restored: Prepared | None = None
    """Where the run went back, what it went back to."""
    stops: bool = False
    wants_checkpoint: bool = False


class Effects:
    """Prepares first (reads and verifies the checkpoint, turns steps into data), and only then changes anything."""

    def __init__(self, objects: TrainingObjects, lineage: Lineage, files: CheckpointFiles | None) -> None:
        self._objects = objects
        self._lineage = lineage
        self._files = files

    def prepare(self, latched: Latched) -> Prepared:
        """Raises :class:`Refused` when any effect could not be applied."""
        prepared = Prepared(latched)
        effects = latched.action.effects
        if len({type(effect) for effect in effects}) < len(effects):
            raise Refused("an effect is named twice")
        for effect in effects:
            if isinstance(effect, SkipRange):
                prepared = replace(prepared, skipped=self._range_after(effect.from_step))
            elif isinstance(effect, Rollback):
                begun = time.monotonic()
                manifest, state = self._checkpoint(effect)
                seconds = time.monotonic() - begun
                prepared = replace(prepared, manifest=manifest, state=state, load_seconds=seconds)
        return prepared

    def apply(self, prepared: Prepared, step: int) -> Applied:
        """Raises :class:`Refused` when the checkpoint turned out not to fit; the run is then as it was."""
        applied = Applied([])
        try:
            for effect in sorted(prepared.latched.action.effects, key=lambda effect: _ORDER.index(type(effect))):
                applied.reports.append(self._apply(effect, prepared, step, applied))
        except (Refused, OSError) as error:
            self._lineage.forget(prepared.skipped)
            raise Refused(str(error)) from error
        return applied

    def _apply(self, effect: Effect, prepared: Prepared, step: int, applied: Applied) -> EffectReport:
        if isinstance(effect, Rollback):
            self._restore(prepared)
            applied.restored = prepared
            return EffectReport("rollback", float(step), float(effect.step), effect.checkpoint)
        if isinstance(effect, SkipRange):
            return self._skip(prepared)
        if isinstance(effect, MomentumReset):
            return EffectReport("momentum_reset", reset_moments(self._objects.optimizer), 0.0)
        if isinstance(effect, LrFactor):
            before = self._objects.learning_rate.factor
            self._objects.learning_rate.set(effect.factor)
            return EffectReport("lr_factor", before, effect.factor)
        if isinstance(effect, CheckpointNow):
            applied.wants_checkpoint = True
            return EffectReport("checkpoint_now", after=float(step))
        assert isinstance(effect, Stop)
        applied.stops = True
        return EffectReport("stop", after=float(step))

    def _range_after(self, from_step: int) -> SkippedRange:
        consumed = self._objects.data.history.consumed_after(from_step)
        if consumed is None:
            raise Refused(f"which data the steps after {from_step} consumed is not known")
        return SkippedRange(*consumed)

    def _checkpoint(self, effect: Rollback) -> tuple[Manifest, dict[str, Any]]:
        manifest = None if self._files is None else self._files.find(effect.checkpoint)
        if self._files is None or manifest is None:
            raise Refused(f"there is no checkpoint {effect.checkpoint!r}")
        if manifest.step != effect.step:
            raise Refused(f"checkpoint {effect.checkpoint!r} is of step {manifest.step}, not {effect.step}")
        bound = self._lineage.surviving_step(manifest.attempt)
        if bound is None or manifest.step > bound:
            raise Refused(f"checkpoint {effect.checkpoint!r} is not on the surviving line")
        try:
            state = self._files.read(manifest)
            self._objects.check(state)
        except DamagedCheckpoint as error:
            raise Refused(str(error), damaged=manifest.name) from None
        except (Mismatch, KeyError, TypeError) as error:
            raise Refused(f"checkpoint {effect.checkpoint!r} does not fit: {error}") from None
        return manifest, state

    def _restore(self, prepared: Prepared) -> None:
        assert prepared.manifest is not None
        assert prepared.state is not None
        action = prepared.latched.action
        kept = Snapshots()
        before = kept.take(self._objects.state())
        kept.wait()
        self._lineage.announce(
            Intent(
                action.id,
                action.attempt,
                action.ordinal,
                prepared.manifest.name,
                prepared.manifest.step,
                prepared.latched.digest,
            )
        )
        try:
            self._objects.load(prepared.state)
        except Exception as error:  # user classes raise what they like; half a restore must not train on
            self._objects.load(before)
            self._lineage.settle_intents()
            raise Refused(f"the checkpoint could not be restored: {error!r}"[:500]) from error

    def _skip(self, prepared: Prepared) -> EffectReport:
        assert prepared.skipped is not None
        self._lineage.skip(prepared.skipped)
        first, last = prepared.skipped.first, prepared.skipped.last
        return EffectReport("skip_range", float(first), float(last), f"batches {first} to {last}")


_ORDER: tuple[type[Any], ...] = (SkipRange, Rollback, MomentumReset, LrFactor, CheckpointNow, Stop)
"""What writes files or may fail comes first; then what changes the state that was gone back to."""
