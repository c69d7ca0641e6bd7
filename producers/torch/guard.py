"""The guard around a PyTorch training loop."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from holter.producers.latch import Permissions, known_effects
from holter.producers.notices import logger
from holter.producers.records import BatchFacts
from holter.producers.run import Run
from holter.producers.torch.batch_contents import SampleIds
from holter.producers.torch.capabilities import Abilities
from holter.producers.torch.checkfree import Stage
from holter.producers.torch.clip import Clipper, GlobalGC
from holter.producers.torch.data_position import DataPosition, make_source
from holter.producers.torch.explosion_reflex import make_explosion_reflex
from holter.producers.torch.explosions import SkipExplosions
from holter.producers.torch.learning_rate import LearningRateFactor
from holter.producers.torch.loss_scale import LossScaleFloor
from holter.producers.torch.measures import StepMeasures, learning_rate_of
from holter.producers.torch.memory_copies import bytes_of_gib
from holter.producers.torch.moments import can_reset
from holter.producers.torch.optim import SkipStep
from holter.producers.torch.parallelism import meet
from holter.producers.torch.ranks import Word
from holter.producers.torch.recovery import CheckpointSettings, Recovery
from holter.producers.torch.reflex import make_reflex
from holter.producers.torch.reflex_reports import ReflexReports
from holter.producers.torch.sole_use import SoleUse, needs_closure
from holter.producers.torch.training_state import Stateful, TrainingObjects
from holter.schemas.bounds import Autonomy, EffectName, UpdateNormSource
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, STEP_SECONDS, UPDATE_NORM, LearningRateChanged

BatchT = TypeVar("BatchT")


class Guard:
    """Owns the step: counts it, takes it, publishes it, saves it, and applies at its boundary what Holter may do.

    ``step()`` unscales, clips where ``clip`` is given, takes the optimizer's, scaler's and scheduler's step and sets
    the gradients to None, so the loop must not. It never waits for the device or the bus.

    In a job of several ranks every rank makes one, after ``init_process_group``, and with the same settings; what
    Holter does, all of them do at the same step or none does.

    Args:
        run: from :func:`holter.producers.init`; a disabled one leaves a plain loop with checkpoints.
        scheduler: stepped once an optimizer step, without a metric. A loop that writes the learning rate itself
            must not allow ``lr_factor``: it would undo it.
        scaler: a ``torch.amp.GradScaler``.
        checkpoints: the folder, in which every run name has its own; None saves nothing and cannot go back. Saving
            off the step keeps one copy of model and optimizer state in host memory.
        checkpoint_every: optimizer steps; 0 saves only when asked.
        keep: newest checkpoints kept; the last two that Holter calls healthy are kept besides.
        memory_every: optimizer steps between copies of the whole state in host memory, of which up to four are kept
            on every rank, within ``memory_gib``, where ``rollback`` is allowed: going back is then shorter and reads no
            disk. 0 keeps none.
        allow: effects that may be applied. By default only ``nan_guard``, the trainer's own reflex: a non-finite
            gradient never reaches weights or moments, nor pulls a loss scale below 1.
        autonomy: how far an allowed effect goes, by name; ``auto`` where nothing is said.
        accumulate: ``step()`` calls an optimizer step consumes; ``backward`` divides the loss by it.
        clip: the largest gradient norm, or a clipper of :mod:`holter.producers.torch.clip`, whose state then is part of
            the checkpoint; with it ``clip_adjust`` can be allowed. Under FSDP1, whose parts are flat, give a clipper
            with ``ranks``.
        reflex: :class:`~holter.producers.torch.SkipExplosions` lets the guard leave out the updates of exploding
            gradients by itself, a few at most; needs ``nan_guard``.
        stage: of :mod:`holter.producers.torch.checkfree`, where this process runs one stage of a pipeline; with it
            ``rebuild_stage`` can be allowed. Every stage has a guard, and ranks are numbered as stages are.
        update_norm: ``sampled`` (at most 64k elements), ``full`` (costs a copy of the weights) or ``none``.
        resume: go on from the newest good checkpoint of this run's name.
        patience_seconds: how long a rank waits at a boundary for what the others said at the one before. One that
            waits in vain goes on, and no action is applied any more.

    Raises:
        ValueError: a setting cannot be used, or the checkpoint to resume from is of another model.
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        scheduler: Stateful | None = None,
        scaler: Any | None = None,
        checkpoints: str | Path | None = "checkpoints/",
        checkpoint_every: int = 50,
        keep: int = 3,
        memory_every: int = 0,
        memory_gib: float = 1.0,
        allow: Iterable[EffectName] = ("nan_guard",),
        autonomy: Mapping[EffectName, Autonomy] | None = None,
        accumulate: int = 1,
        clip: float | Clipper | None = None,
        reflex: SkipExplosions | None = None,
        stage: Stage | None = None,
        update_norm: UpdateNormSource = "sampled",
        resume: bool = False,
        patience_seconds: float = 5.0,
    ) -> None:
        self._allow = _checked(allow, accumulate, keep, reflex)
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise ValueError("ReduceLROnPlateau needs a metric: step it in the loop and do not give it to Guard")
        if needs_closure(optimizer):
            raise ValueError(f"{type(optimizer).__name__}.step() needs a closure: keep it in the loop and use Hooks")
        self._autonomy = dict(autonomy or {})
        self._run = run
        self._optimizer, self._scheduler, self._scaler = optimizer, scheduler, _enabled(scaler)
        self._accumulate = accumulate
        self._clip = clip if clip is None or isinstance(clip, Clipper) else GlobalGC(clip)
        self._num_micro_steps = 0
        self._parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
        same = (
            sorted(self._allow),
            accumulate,
            _named(clip),
            checkpoint_every,
            memory_every,
            update_norm,
            repr(reflex),
        )
        self._across = meet(run, model, self._parameters, same, patience_seconds)
        self._ranks = self._across.ranks
        self._prepare_measures(update_norm, reflex)
        self._data = DataPosition()
        self._learning_rate = LearningRateFactor(optimizer, scheduler)
        self._objects = TrainingObjects(
            model,
            optimizer,
            scheduler,
            scaler,
            self._learning_rate,
            self._data,
            self._clip,
            self._ranks.num_ranks,
            self._explosions,
            stage=stage,
        )
        settings = self._settings(checkpoints, checkpoint_every, keep)
        settings = replace(settings, memory_every_steps=memory_every, memory_bytes=bytes_of_gib(memory_gib))
        self._recovery = Recovery(run, self._objects, settings, self._ranks)
        self._began = self._went_back = self._stopped = False
        run.drive(self._finish)
        self._sole_use = SoleUse(optimizer, run.notices)
        if resume:
            self._recovery.resume()
            self._restart()
        run.advance(self.last_step + 1)

    @property
    def last_step(self) -> int:
        """The optimizer steps done on the surviving line; lower again after a rollback."""
        return self._recovery.step

    @property
    def num_skipped(self) -> int:
        """Steps whose update was not applied, as far as they are known yet."""
        return self._measures.num_skipped

    @property
    def is_stopped(self) -> bool:
        """Whether an action ended the training."""
        return self._stopped

    def batches(
        self,
        loader: Iterable[BatchT],
        until: int | None = None,
        *,
        seeded: bool = False,
        sample_ids: SampleIds | None = None,
    ) -> Iterator[BatchT]:
        """The loader's batches, epoch after epoch, until the step ``until`` of the surviving line is done.

        After a rollback they go on from the checkpoint's position, without the data that Holter said to skip.
        Without ``until`` it is one pass. ``seeded`` promises that the loader gives the same batches in the same
        order whenever it is iterated; :mod:`holter.producers.torch.data_position` says what is known without it.
        ``sample_ids`` gives the trainer's own ids of a batch's samples (text or integers); they are kept of data that
        did harm, and ``holter bad-batches`` shows them.
        """
        self._data.contents.sample_ids = sample_ids
        self._data.attach(make_source(loader, seeded))
        self._begin()
        num_empty = 0
        while not self._is_done(until):
            num_read = yield from self._epoch(until)
            num_empty = 0 if num_read else num_empty + 1
            if self._went_back:
                self._went_back = False
            elif until is None or num_empty == 2:  # one empty pass is a position at the end of its epoch
                return

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass of one micro-batch, accumulation and loss scale included."""
        self._begin()
        self._measures.add_loss(loss)
        if self._accumulate > 1:
            loss = loss / self._accumulate
        (loss if self._scaler is None else self._scaler.scale(loss)).backward()

    def step(self) -> None:
        """Ends a micro-batch; with the last of a step, takes the optimizer's step and handles what is latched."""
        self._num_micro_steps += 1
        if self._num_micro_steps < self._accumulate:
            return
        self._num_micro_steps = 0
        self._begin()
        self._take_step()
        self._recovery.step += 1
        self._data.history.end_step(self._recovery.step)
        self._run.advance(self._recovery.step + 1)
        if self._explosions is None and self._recovery.is_idle:
            return
        word = self._ranks.poll(self._word, self._explosions is not None or self._recovery.is_word_awaited)
        if self._explosions is not None:
            self._explosions.hear(word.unread)
        self._recovery.checkpoint_if_due(word)
        self._handle_control(word)

    def _take_step(self) -> None:
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
        norm = self._gradient_norm()
        rate = learning_rate_of(self._optimizer)
        self._tell_optimizer(norm)
        self._sole_use.begin_step()
        applied, scale = self._optimizer_step(norm)
        self._sole_use.end_step()
        applied = _really_applied(self._optimizer, applied)
        update = None if self._update_norm is None else 0.0 if applied is False else self._update_norm.measure()
        if self._scheduler is not None:
            self._scheduler.step()  # type: ignore[attr-defined]
        self._learning_rate.advance()
        if self._clip is not None:
            self._clip.commit(applied)
        self._optimizer.zero_grad(set_to_none=True)
        self._measures.publish(self._recovery.step + 1, applied, rate, norm, update, scale)

    def _gradient_norm(self) -> torch.Tensor | None:
        if self._clip is not None:
            return self._clip.clip(self._parameters).norm_before
        return self._gradients.norm() if self._measures_norm else None

    def _tell_optimizer(self, norm: torch.Tensor | None) -> None:
        """Of the loss, every rank has one of its own."""
        if isinstance(self._optimizer, SkipStep):
            loss = self._measures.mean_loss() if self._ranks.num_ranks == 1 else None
            self._optimizer.observe(None if loss is None else torch.as_tensor(loss), norm)

    def _optimizer_step(self, norm: torch.Tensor | None) -> tuple[bool | torch.Tensor, torch.Tensor | None]:
        if self._explosions is not None and norm is not None:
            norm = self._explosions.admitted(self._recovery.step + 1, norm)
        applied = self._reflex.take(self._optimizer, norm)
        if self._scaler is None:
            return applied, None
        scale = getattr(self._scaler, "_scale", None)
        scale = None if scale is None else scale.clone()
        self._scaler.update()
        if self._scale_floor is not None:
            self._scale_floor.settle()
        return applied, scale

    def _word(self) -> Word:
        word = self._recovery.word()
        return word if self._explosions is None else word._replace(unread=self._explosions.unread)

    def _handle_control(self, word: Word) -> None:
        latched = self._recovery.take_action(word)
        if latched is None:
            return
        self._measures.flush()
        rate = learning_rate_of(self._optimizer)
        applied = self._recovery.act(latched)
        if applied is None:
            return
        self._stopped = self._stopped or applied.stops
        if applied.restored is not None:
            self._went_back = True
        if applied.before is not None:
            self._restart()
        self._report_learning_rate(rate)

    def _report_learning_rate(self, before: float | torch.Tensor) -> None:
        after = learning_rate_of(self._optimizer)
        if float(before) != float(after):
            self._run.event(LearningRateChanged(float(before), float(after)), self._recovery.step)

    def _epoch(self, until: int | None) -> Generator[Any, None, int]:
        num_read = 0
        history, contents, lineage = self._data.history, self._data.contents, self._recovery.lineage
        is_alone = self._ranks.num_ranks == 1
        for index, batch in self._data.batches():
            num_read += 1
            contents.note(index, batch)
            if lineage.is_skipped(index, contents.extent(index) if is_alone else None):
                history.pass_over(index)
                continue
            history.consume(index)
            yield batch
            if self._went_back or self._is_done(until):
                break
        return num_read

    def _is_done(self, until: int | None) -> bool:
        return self._stopped or (until is not None and self._recovery.step >= until)

    def _begin(self) -> None:
        if self._began:
            return
        self._began = True
        measures = (LOSS, GRAD_NORM, LEARNING_RATE, STEP_SECONDS)
        abilities = self._abilities()
        permissions = self._recovery.begin(
            Permissions(abilities.effects(), self._allow, self._autonomy),
            measures if self._update_norm is None else (*measures, UPDATE_NORM),
        )
        self._run.advance(self._recovery.step + 1)
        self._measures.restart()
        lacking = self._allow - permissions.capabilities
        if lacking and self._ranks.is_lead:
            names = ", ".join(sorted(lacking))
            logger.warning("allowed but not possible here: %s (%s)", names, abilities.reasons(lacking))

    def _abilities(self) -> Abilities:
        return Abilities(
            ranks_agree=self._ranks.is_armed,
            skips_together=self._across.sees_all_gradients,
            resets_moments=can_reset(self._optimizer),
            clips=self._clip is not None,
            rebuilds=self._objects.stage is not None,
            saves=self._recovery.can_save,
            goes_back=self._data.can_go_back,
            state_is_known=self._objects.can_be_saved,
        )

    def _prepare_measures(self, update_norm: UpdateNormSource, reflex: SkipExplosions | None) -> None:
        reflexive = "nan_guard" in self._allow and self._across.sees_all_gradients
        self._reflex = make_reflex(self._optimizer, reflexive, self._scaler)
        self._scale_floor = LossScaleFloor(self._scaler) if reflexive and self._scaler is not None else None
        self._explosions = make_explosion_reflex(self._parameters, reflex) if reflex and reflexive else None
        self._measures_norm = (self._across.publishes or reflexive) and self._across.measures_norm
        self._gradients = self._across.gradients(self._parameters)
        self._update_norm = self._across.update_norm(self._parameters, update_norm)
        reports = ReflexReports(self._run, self._explosions, selects=reflexive and self._scaler is None)
        self._measures = StepMeasures(self._run, self._parameters, self._facts(), reports)

    def _settings(self, checkpoints: str | Path | None, every_steps: int, keep: int) -> CheckpointSettings:
        root = None if checkpoints is None else Path(checkpoints)
        saves = self._ranks.is_armed and self._objects.can_be_saved
        return CheckpointSettings(root, saves, self._across.shares_weights, every_steps, keep)

    def _restart(self) -> None:
        """After the weights changed under the guard's feet."""
        self._num_micro_steps = 0
        self._optimizer.zero_grad(set_to_none=True)
        self._measures.restart()
        for restored in (self._update_norm, self._scale_floor):
            if restored is not None:
                restored.restart()

    def _facts(self) -> BatchFacts:
        return BatchFacts(
            accumulation=self._accumulate,
            update_norm_source="none" if self._update_norm is None else self._update_norm.source,
            grad_norm_scope=self._across.norm_scope,
        )

    def _finish(self) -> None:
        self._sole_use.end()
        self._measures.flush()
        self._recovery.finish()


def _checked(
    allow: Iterable[EffectName], accumulate: int, keep: int, reflex: SkipExplosions | None
) -> frozenset[EffectName]:
    names = known_effects(allow)
    if accumulate < 1 or keep < 1:
        raise ValueError("accumulate and keep must be at least 1")
    if reflex is not None and "nan_guard" not in names:
        raise ValueError("reflex needs nan_guard in allow")
    return names


def _named(clip: float | Clipper | None) -> float | str | None:
    return clip.name if isinstance(clip, Clipper) else clip


def _really_applied(optimizer: torch.optim.Optimizer, applied: bool | torch.Tensor) -> bool | torch.Tensor:
    """An optimizer that was asked may have left the step out by itself."""
    if not isinstance(optimizer, SkipStep) or applied is False or optimizer.applied is True:
        return applied
    return optimizer.applied if applied is True else optimizer.applied & applied


def _enabled(scaler: Any | None) -> Any | None:
    """One that is switched off does nothing, and leaves nothing out either."""
    return scaler if scaler is not None and getattr(scaler, "is_enabled", lambda: True)() else None
