"""The guard around a PyTorch training loop."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch

from holter.producers.latch import Permissions
from holter.producers.notices import logger
from holter.producers.records import BatchFacts
from holter.producers.run import Run
from holter.producers.torch.capabilities import Abilities
from holter.producers.torch.clipping import ClipThreshold
from holter.producers.torch.data_position import DataPosition, make_source
from holter.producers.torch.learning_rate import LearningRateFactor
from holter.producers.torch.measures import StepMeasures, learning_rate_of
from holter.producers.torch.moments import can_reset
from holter.producers.torch.parallelism import meet
from holter.producers.torch.ranks import Word
from holter.producers.torch.recovery import CheckpointSettings, Recovery
from holter.producers.torch.reflex import make_reflex
from holter.producers.torch.training_state import Stateful, TrainingObjects
from holter.schemas.bounds import Autonomy, EffectName, UpdateNormSource
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, STEP_SECONDS, UPDATE_NORM, LearningRateChanged

BatchT = TypeVar("BatchT")
_KNOWN_EFFECTS: frozenset[EffectName] = frozenset(get_args(EffectName))


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
        keep: newest checkpoints kept; the one that Holter calls healthy is kept besides.
        allow: effects that may be applied. By default only ``nan_guard``, the trainer's own reflex: a non-finite
            gradient never reaches weights or moments.
        autonomy: how far an allowed effect goes, by name; ``auto`` where nothing is said.
        accumulate: ``step()`` calls an optimizer step consumes; ``backward`` divides the loss by it.
        clip: the largest gradient norm; with it ``clip_adjust`` can be allowed.
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
        allow: Iterable[EffectName] = ("nan_guard",),
        autonomy: Mapping[EffectName, Autonomy] | None = None,
        accumulate: int = 1,
        clip: float | None = None,
        update_norm: UpdateNormSource = "sampled",
        resume: bool = False,
        patience_seconds: float = 5.0,
    ) -> None:
        self._allow = _checked(allow, accumulate, keep)
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise ValueError("ReduceLROnPlateau needs a metric: step it in the loop and do not give it to Guard")
        self._autonomy = dict(autonomy or {})
        self._run = run
        self._optimizer, self._scheduler, self._scaler = optimizer, scheduler, scaler
        self._accumulate = accumulate
        self._clip = None if clip is None else ClipThreshold(clip)
        self._num_micro_steps = 0
        self._parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
        same = (sorted(self._allow), accumulate, clip, checkpoint_every, update_norm)
        self._across = meet(run, model, self._parameters, same, patience_seconds)
        self._ranks = self._across.ranks
        self._prepare_measures(update_norm)
        self._data = DataPosition()
        self._learning_rate = LearningRateFactor(optimizer, scheduler)
        self._objects = TrainingObjects(
            model, optimizer, scheduler, scaler, self._learning_rate, self._data, self._clip, self._ranks.num_ranks
        )
        self._recovery = Recovery(run, self._objects, self._settings(checkpoints, checkpoint_every, keep), self._ranks)
        self._began = self._went_back = self._stopped = False
        run.drive(self._finish)
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

    def batches(self, loader: Iterable[BatchT], until: int | None = None, *, seeded: bool = False) -> Iterator[BatchT]:
        """The loader's batches, epoch after epoch, until the step ``until`` of the surviving line is done.

        After a rollback they go on from the checkpoint's position, without the data that Holter said to skip.
        Without ``until`` it is one pass. ``seeded`` promises that the loader gives the same batches in the same
        order whenever it is iterated; :mod:`holter.producers.torch.data_position` says what is known without it.
        """
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
        word = self._ranks.poll(self._recovery.word())
        self._recovery.checkpoint_if_due(word)
        self._handle_control(word)

    def _take_step(self) -> None:
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
        norm = self._gradient_norm()
        rate = learning_rate_of(self._optimizer)
        applied, scale = self._optimizer_step(norm)
        update = None if self._update_norm is None else 0.0 if applied is False else self._update_norm.measure()
        if self._scheduler is not None:
            self._scheduler.step()  # type: ignore[attr-defined]
        self._learning_rate.advance()
        if self._clip is not None:
            self._clip.advance()
        self._optimizer.zero_grad(set_to_none=True)
        self._measures.publish(self._recovery.step + 1, applied, rate, norm, update, scale)

    def _gradient_norm(self) -> torch.Tensor | None:
        if self._clip is not None:
            return self._gradients.clip(self._clip.value)
        return self._gradients.norm() if self._measures_norm else None

    def _optimizer_step(self, norm: torch.Tensor | None) -> tuple[bool | torch.Tensor, torch.Tensor | None]:
        if self._scaler is None:
            return self._reflex.take(self._optimizer, norm), None
        applied = _found_finite(self._scaler, self._optimizer)
        scale = getattr(self._scaler, "_scale", None)
        scale = None if scale is None else scale.clone()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return applied, scale

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
            self._restart()
        self._report_learning_rate(rate)

    def _report_learning_rate(self, before: float | torch.Tensor) -> None:
        after = learning_rate_of(self._optimizer)
        if float(before) != float(after):
            self._run.event(LearningRateChanged(float(before), float(after)), self._recovery.step)

    def _epoch(self, until: int | None) -> Generator[Any, None, int]:
        num_read = 0
        history, lineage = self._data.history, self._recovery.lineage
        for index, batch in self._data.batches():
            num_read += 1
            if lineage.is_skipped(index):
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
            saves=self._recovery.can_save,
            goes_back=self._data.can_go_back,
            state_is_known=self._objects.can_be_saved,
        )

    def _prepare_measures(self, update_norm: UpdateNormSource) -> None:
        reflexive = "nan_guard" in self._allow and self._across.sees_all_gradients
        self._reflex = make_reflex(self._optimizer, reflexive, self._scaler is not None)
        self._measures_norm = (self._across.publishes or reflexive) and self._across.measures_norm
        self._gradients = self._across.gradients(self._parameters)
        self._update_norm = self._across.update_norm(self._parameters, update_norm)
        self._measures = StepMeasures(self._run, self._parameters[0].device, self._facts())

    def _settings(self, checkpoints: str | Path | None, every_steps: int, keep: int) -> CheckpointSettings:
        root = None if checkpoints is None else Path(checkpoints)
        saves = self._ranks.is_armed and self._objects.can_be_saved
        return CheckpointSettings(root, saves, self._across.shares_weights, every_steps, keep)

    def _restart(self) -> None:
        """After the weights changed under the guard's feet."""
        self._num_micro_steps = 0
        self._optimizer.zero_grad(set_to_none=True)
        self._measures.restart()
        if self._update_norm is not None:
            self._update_norm.restart()

    def _facts(self) -> BatchFacts:
        return BatchFacts(
            accumulation=self._accumulate,
            update_norm_source="none" if self._update_norm is None else self._update_norm.source,
            grad_norm_scope=self._across.norm_scope,
        )

    def _finish(self) -> None:
        self._measures.flush()
        self._recovery.finish()


def _checked(allow: Iterable[EffectName], accumulate: int, keep: int) -> frozenset[EffectName]:
    names: frozenset[EffectName] = frozenset(allow)
    if names - _KNOWN_EFFECTS:
        raise ValueError(f"allow has {sorted(names - _KNOWN_EFFECTS)}; known are {', '.join(sorted(_KNOWN_EFFECTS))}")
    if accumulate < 1 or keep < 1:
        raise ValueError("accumulate and keep must be at least 1")
    return names


def _found_finite(scaler: Any, optimizer: torch.optim.Optimizer) -> bool | torch.Tensor:
    """Whether the scaler will take the step, as a device flag."""
    flags = list(scaler._found_inf_per_device(optimizer).values())
    return True if not flags else flags[0] == 0
