"""Holter in a loop that keeps its own ``optimizer.step()``: everything is seen and done from the optimizer's hooks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from holter.producers.latch import Permissions, known_effects
from holter.producers.notices import logger
from holter.producers.records import BatchFacts
from holter.producers.run import Run
from holter.producers.torch.capabilities import Abilities
from holter.producers.torch.device_values import on_host
from holter.producers.torch.learning_rate import LearningRateFactor
from holter.producers.torch.loss_scale import LossScaleFloor
from holter.producers.torch.measures import StepMeasures, learning_rate_of
from holter.producers.torch.memory_copies import bytes_of_gib
from holter.producers.torch.moments import can_reset
from holter.producers.torch.onward_data import OnwardData
from holter.producers.torch.parallelism import meet
from holter.producers.torch.ranks import Word
from holter.producers.torch.recovery import CheckpointSettings, Recovery
from holter.producers.torch.reflex_reports import ReflexReports
from holter.producers.torch.sharding import whole_norm
from holter.producers.torch.sole_use import has_step_hooks, use
from holter.producers.torch.training_state import Stateful, TrainingObjects
from holter.producers.torch.withheld_steps import make_withheld_steps
from holter.schemas.bounds import Autonomy, EffectName, Scope, UpdateNormSource
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, STEP_SECONDS, UPDATE_NORM, LearningRateChanged


class Hooks:
    """Counts the optimizer's steps, publishes them, saves them, and applies at their boundary what Holter may do.

    The loop stays as it is. It tells the loss by :meth:`add_loss` before the optimizer's step (or by
    ``run.log({"train/loss": loss})``), and the gradient norm of before its clipping by :meth:`see_gradients`, where
    it clips. After a rollback it goes on with the data that comes next, see :class:`OnwardData`.

    Args:
        run: from :func:`holter.producers.init`.
        optimizer: one whose class derives from torch's, in whatever wrapper that names it ``optimizer``.
        scheduler: all that writes the learning rate; without it ``lr_factor`` cannot be applied.
        scaler: a ``torch.amp.GradScaler``; a step that it skips is told by its ``update()``.
        checkpoints: the folder, in which every run name has its own; None saves nothing and cannot go back.
        last_step: optimizer steps done before, where the loop resumed from a checkpoint of its own.
        boundary: where an action is applied: ``optimizer``, at the end of every optimizer step, or ``loop``, where
            the loop calls :meth:`end_step`.
        ends_loop: promises that the loop ends when :attr:`is_stopped` is true.
        grad_norm_scope: of the norms that :meth:`see_gradients` is given, where they are not of Holter's own scope.

    The other arguments are those of :class:`~holter.producers.torch.Guard`.

    Raises:
        ValueError: a setting cannot be used, or the run or the optimizer is guarded already.
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        optimizer: Any,
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
        update_norm: UpdateNormSource = "sampled",
        last_step: int = 0,
        boundary: Literal["optimizer", "loop"] = "optimizer",
        ends_loop: bool = False,
        patience_seconds: float = 5.0,
        grad_norm_scope: Scope | None = None,
    ) -> None:
        self._allow = known_effects(allow)
        self._told_scope = grad_norm_scope
        self._run = run
        self._optimizer = inner_optimizer(optimizer)
        self._scheduler = scheduler
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._boundary, self._ends_loop = boundary, ends_loop
        stepped = [weight for group in self._optimizer.param_groups for weight in group["params"]]
        self._parameters = stepped or list(model.parameters())  # ZeRO-3 empties its groups between steps
        self._norm: torch.Tensor | float | None = None
        """A number where the gradients lie on the CPU."""
        self._applied: bool | torch.Tensor = True
        self._num_open = 0
        same = (sorted(self._allow), accumulate, checkpoint_every, memory_every, update_norm)
        self._across = meet(run, model, self._parameters, same, patience_seconds)
        self._prepare_measures(update_norm, accumulate)
        self._data = OnwardData()
        self._learning_rate = LearningRateFactor(self._optimizer, scheduler)
        self._objects = TrainingObjects(
            model, self._optimizer, scheduler, self._scaler, self._learning_rate, self._data, None,
            self._across.ranks.num_ranks,
        )  # fmt: skip
        settings = CheckpointSettings(
            None if checkpoints is None else Path(checkpoints),
            self._across.ranks.is_armed and self._objects.can_be_saved,
            self._across.shares_weights, checkpoint_every, keep, memory_every, bytes_of_gib(memory_gib),
        )  # fmt: skip
        self._recovery = Recovery(run, self._objects, settings, self._across.ranks)
        self._recovery.step = self._step_at_update = last_step
        self._is_stopped = False
        self._removers = self._register()
        self._begin(autonomy or {})

    @property
    def last_step(self) -> int:
        """The optimizer steps done on the surviving line; lower again after a rollback."""
        return self._recovery.step

    @property
    def capabilities(self) -> frozenset[EffectName]:
        """What can be applied here."""
        return self._capabilities

    @property
    def is_stopped(self) -> bool:
        """Whether an action ended the training."""
        return self._is_stopped

    @property
    def is_step_open(self) -> bool:
        """Whether the optimizer took a step since the last :meth:`end_step`."""
        return self._num_open > 0

    @property
    def run(self) -> Run:
        return self._run

    def add_loss(self, loss: torch.Tensor) -> None:
        """The loss of one micro-batch; the step's is their mean."""
        self._measures.add_loss(loss)

    def see_gradients(self, norm: Any | None = None) -> None:
        """The gradients are whole and unscaled; ``norm`` is theirs, where the loop computed it when it clipped."""
        if norm is None and self._measures_norm:
            norm = self._gradients.norm()
        self._norm = on_host(whole_norm(norm)) if isinstance(norm, torch.Tensor) else norm

    def end_step(self) -> None:
        """The boundary of a loop that says it itself: after the scheduler's step."""
        if not self._num_open:
            self._miss_step()
        self._num_open = 0
        self._learning_rate.advance()
        if self._recovery.is_idle:
            return
        word = self._across.ranks.poll(self._recovery.word, self._recovery.is_word_awaited)
        self._recovery.checkpoint_if_due(word)
        self._handle_control(word)

    def close(self) -> None:
        """Lets go of the optimizer; the run's end does it too."""
        for remove in self._removers:
            remove()
        self._removers = []

    def _before(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """With a closure the gradients come only inside the step: what it has to be told then waits for it."""
        closure = _closure(args, kwargs)
        if closure is None:
            self._admit(optimizer)
            return None

        def watched() -> Any:
            with torch.enable_grad():
                loss = closure()
            self._admit(optimizer)
            return loss

        return args[:1], {**kwargs, "closure": watched}

    def _admit(self, optimizer: torch.optim.Optimizer) -> None:
        if self._norm is None:
            self.see_gradients()
            self._unscale_norm(optimizer)
        self._applied = self._withheld.before(optimizer, self._norm)

    def _after(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._withheld.after(optimizer)
        update = None if self._update_norm is None else self._update_norm.measure()
        self._publish(self._applied, 0.0 if self._applied is False else update)

    def _publish(self, applied: bool | torch.Tensor, update: float | torch.Tensor | None) -> None:
        step = self._recovery.step + 1
        scale = getattr(self._scaler, "_scale", None)
        scale = None if scale is None else scale.clone()
        self._measures.publish(step, applied, learning_rate_of(self._optimizer), self._norm, update, scale)
        self._norm, self._applied = None, True
        self._num_open += 1
        self._recovery.step = step
        self._data.end_step(step)
        self._run.advance(step + 1)
        if self._boundary == "optimizer":
            self.end_step()

    def _skip(self) -> None:
        """The scaler did not take the step."""
        self._publish(False, 0.0)

    def _miss_step(self) -> None:
        """The loop ended a step that the hooks saw nothing of."""
        kind = type(self._optimizer).__name__
        self._run.notices.warn(
            "unseen_step", f"{kind}.step() was not seen: something else takes the step; only what the loop says is sent"
        )
        self._publish(True, None)

    def _unscale_norm(self, optimizer: torch.optim.Optimizer) -> None:
        """Fused optimizers unscale in their own step; the scaler tells them by how much."""
        scale = getattr(optimizer, "grad_scale", None)
        if scale is not None and self._norm is not None:
            self._norm = self._norm / (scale.to(self._norm.device) if isinstance(self._norm, torch.Tensor) else scale)
            self._applied = getattr(optimizer, "found_inf", None) == 0

    def _handle_control(self, word: Word) -> None:
        latched = self._recovery.take_action(word)
        if latched is None:
            return
        self._measures.flush()
        before = learning_rate_of(self._optimizer)
        applied = self._recovery.act(latched)
        if applied is None:
            return
        self._is_stopped = self._is_stopped or applied.stops
        if applied.restored is not None:
            self._restart()
        after = learning_rate_of(self._optimizer)
        if float(before) != float(after):
            self._run.event(LearningRateChanged(float(before), float(after)), self._recovery.step)

    def _restart(self) -> None:
        """After the weights changed under the hooks' feet."""
        self._optimizer.zero_grad(set_to_none=True)
        self._run.advance(self._recovery.step + 1)
        self._measures.restart()
        for restored in (self._update_norm, self._scale_floor):
            if restored is not None:
                restored.restart()

    def _prepare_measures(self, update_norm: UpdateNormSource, accumulate: int) -> None:
        wanted = "nan_guard" in self._allow and self._across.sees_all_gradients
        self._withheld = make_withheld_steps(self._optimizer, wanted, self._scaler is not None)
        self._scale_floor = LossScaleFloor(self._scaler) if wanted and self._scaler is not None else None
        self._measures_norm = (self._across.publishes or self._withheld.can_withhold) and self._across.measures_norm
        self._gradients = self._across.gradients(self._parameters)
        self._update_norm = self._across.update_norm(self._parameters, update_norm)
        source = "none" if self._update_norm is None else self._update_norm.source
        scope = self._told_scope or self._across.norm_scope
        facts = BatchFacts(accumulation=accumulate, update_norm_source=source, grad_norm_scope=scope)
        reports = ReflexReports(self._run, None, selects=self._withheld.can_withhold)
        self._measures = StepMeasures(self._run, self._parameters, facts, reports)

    def _register(self) -> list[Callable[[], Any]]:
        release = use(self._optimizer)
        try:
            self._run.drive(self._finish)
        except ValueError:
            release()
            raise
        removers = [
            release,
            self._optimizer.register_step_pre_hook(self._before).remove,
            self._optimizer.register_step_post_hook(self._after).remove,
        ]
        return removers if self._scaler is None else [*removers, _after_update(self._scaler, self._updated)]

    def _updated(self) -> None:
        """The scaler's ``update()`` ends every step, also one that it did not let the optimizer take."""
        if self._scale_floor is not None:
            self._scale_floor.settle()
        if self._recovery.step == self._step_at_update:
            self._skip()
        self._step_at_update = self._recovery.step

    def _begin(self, autonomy: Mapping[EffectName, Autonomy]) -> None:
        measures: tuple[str, ...] = (LOSS, GRAD_NORM, LEARNING_RATE, STEP_SECONDS)
        if self._update_norm is not None:
            measures = (*measures, UPDATE_NORM)
        able = self._able()
        permissions = self._recovery.begin(Permissions(able, self._allow, autonomy), measures)
        self._capabilities = permissions.capabilities
        self._run.advance(self._recovery.step + 1)
        self._measures.restart()
        if self._across.ranks.is_lead:
            self._report(measures)

    def _able(self) -> frozenset[EffectName]:
        able = self._abilities().effects()
        if self._scheduler is None:
            able -= {"lr_factor"}
        if not self._ends_loop:
            able -= {"stop"}
        return able if self._withheld.can_withhold or self._scaler is not None else able - {"nan_guard"}

    def _abilities(self) -> Abilities:
        return Abilities(
            ranks_agree=self._across.ranks.is_armed,
            skips_together=self._across.sees_all_gradients or getattr(self._scaler, "skips_together", False),
            resets_moments=can_reset(self._optimizer),
            saves=self._recovery.can_save,
            goes_back=self._recovery.can_save,  # a range that was read already is skipped by going back alone
            state_is_known=self._objects.can_be_saved,
        )

    def _report(self, measures: tuple[str, ...]) -> None:
        able = ", ".join(sorted(self._capabilities)) or "nothing"
        logger.info("Holter sees %s; it can apply %s", ", ".join(measures), able)
        lacking = self._allow - self._capabilities
        if lacking:
            logger.warning("allowed but not possible here: %s (%s)", ", ".join(sorted(lacking)), self._reasons(lacking))

    def _reasons(self, lacking: frozenset[EffectName]) -> str:
        causes = (
            ("lr_factor" in lacking and self._scheduler is None, "lr_factor needs scheduler="),
            ("clip_adjust" in lacking, "this loop clips by itself"),
            ("stop" in lacking and not self._ends_loop, "this loop does not ask whether to stop"),
            ("momentum_reset" in lacking, "this optimizer's fresh state is not known"),
            ("nan_guard" in lacking, self._why_unguarded()),
            (bool(lacking & {"rollback", "skip_range", "checkpoint_now"}), "going back needs checkpoints="),
        )
        return "; ".join(text for applies, text in causes if applies)

    def _why_unguarded(self) -> str:
        if not self._across.sees_all_gradients:
            return "the ranks share their gradients neither by DDP nor by FSDP2"
        return "a step is withheld on the CPU, from a fused optimizer or by a scaler"

    def _finish(self) -> None:
        self.close()
        self._measures.flush()
        self._recovery.finish()


def inner_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer whose own step it is, out of wrappers that name it ``optimizer``.

    Raises:
        ValueError: there is none with hooks of its own.
    """
    inner = optimizer
    while not has_step_hooks(inner):
        inner = getattr(inner, "optimizer", None)
        if inner is None:
            kind = type(optimizer).__name__
            raise ValueError(f"{kind} is no torch optimizer with step hooks, nor does its .optimizer name one")
    return inner  # type: ignore[no-any-return]


def _closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """The closure that ``step`` was called with; the first argument is the optimizer."""
    return next((each for each in (*args[1:2], kwargs.get("closure")) if callable(each)), None)


def _after_update(scaler: Any, then: Callable[[], None]) -> Callable[[], Any]:
    """Calls ``then`` after every ``scaler.update()``; returns what takes that back."""
    own = scaler.update

    @functools.wraps(own)
    def update(*args: Any, **kwargs: Any) -> None:
        own(*args, **kwargs)
        then()

    scaler.update = update
    return lambda: vars(scaler).pop("update", None)
