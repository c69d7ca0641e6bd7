"""Holter in Keras' ``fit``, on its JAX backend::

    from holter.producers.integrations.keras import HolterCallback
    model.fit(…, callbacks=[HolterCallback(project="my-project", allow={"lr_factor", "rollback"})])

Loss, gradient norm and update norm are those of each batch, computed in its compiled step; what ``fit`` logs is the
mean over the epoch so far. Nothing of torch or TensorFlow is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from holter import producers
from holter.producers.actions import PendingAction
from holter.producers.integrations.attaching import check_one_given
from holter.producers.integrations.keras_steps import MeasuredSteps
from holter.producers.memory_checkpoints import MemoryCheckpoints
from holter.producers.notices import logger
from holter.producers.run import Run
from holter.schemas.bounds import Autonomy, EffectName
from holter.schemas.control import Effect, LrFactor, Rollback

APPLIED: frozenset[EffectName] = frozenset({"lr_factor", "rollback", "stop"})
State = list[np.ndarray[Any, Any]]
_Values = tuple[float | None, float | None]


class HolterCallback(keras.callbacks.Callback):
    """Sees every batch of a ``fit``, and applies after it what it was allowed to.

    A rollback takes weights, optimizer and the state of layers from a copy in host memory, leaves the learning rate,
    and goes on with the data that comes next.

    Args:
        project: each ``fit`` is a run of its own in it, with ``config``; or ``run``, for one ``fit``, whose ``init``
            was told what is allowed.
        allow: of ``lr_factor``, ``rollback`` and ``stop``.
        checkpoint_every: batches between two copies, where ``rollback`` is allowed; ``keep`` of them are kept, and the
            newest healthy one. They are copied, since ``fit`` donates its arrays to the compiled step.

    Raises:
        ValueError: not exactly one of project and run was given, or an effect cannot be allowed. ``fit`` raises it
            where steps cannot be measured, see :class:`MeasuredSteps`.
    """

    def __init__(
        self,
        project: str | None = None,
        *,
        run: Run | None = None,
        config: object = None,
        allow: Iterable[EffectName] = (),
        autonomy: Mapping[EffectName, Autonomy] | None = None,
        checkpoint_every: int = 25,
        keep: int = 2,
    ) -> None:
        super().__init__()
        check_one_given(run, project)
        self._allow, self._autonomy = _checked(allow, run), autonomy
        self.run = run
        self.last_step = 0
        """On the surviving line; lower again after a rollback."""
        self._project, self._config = project, config
        self._spacing, self._keep = checkpoint_every, keep
        self._steps: MeasuredSteps | None = None
        self._checkpoints: MemoryCheckpoints[State] | None = None
        self._factor, self._climb = 1.0, 0.0

    def on_train_begin(self, logs: Any = None) -> None:
        is_left = self._steps is not None
        self._steps = MeasuredSteps(self.model, self.params)
        if self._project is not None:
            if self.run is not None and is_left:
                self.run.finish("failed", "an exception ended fit")
            self.run = self._new_run(self._project)
            self.last_step, self._factor, self._climb = 0, 1.0, 0.0
        assert self.run is not None
        self._checkpoints = MemoryCheckpoints(self.run, self._spacing, self._keep)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        run, steps, checkpoints = self.run, self._steps, self._checkpoints
        if run is None or steps is None or checkpoints is None:
            return
        self.last_step += 1
        run.log(steps.measured, self.last_step, commit=True)
        if checkpoints.is_due(self.last_step):
            checkpoints.keep(self.last_step, _copied(self._variables(), checkpoints.make_room()))
        if self._climb:
            self._scale(min(1.0, self._factor + self._climb))
        for action in run.poll_actions():
            with action as pending:
                self._apply(pending, checkpoints)

    def on_train_end(self, logs: Any = None) -> None:
        if self._steps is not None:
            self._steps.remove()
        if self.run is not None:
            self.run.finish()
        self._steps = self._checkpoints = None

    def _new_run(self, project: str) -> Run:
        allow = self._allow
        if "lr_factor" in allow and not isinstance(self.model.optimizer._learning_rate, keras.Variable):
            logger.warning("lr_factor is not possible: the learning rate is a schedule")
            allow -= {"lr_factor"}
        return producers.init(project, config=self._config, allow=allow, autonomy=self._autonomy)

    def _apply(self, action: PendingAction, checkpoints: MemoryCheckpoints[State]) -> None:
        values: dict[str, _Values] = {}
        for effect, name in zip(action.effects, action.names, strict=True):
            values[name] = self._take(effect, checkpoints)
        action.done(**values)

    def _take(self, effect: Effect, checkpoints: MemoryCheckpoints[State]) -> _Values:
        if isinstance(effect, Rollback):
            return self._go_back(effect, checkpoints)
        if isinstance(effect, LrFactor):
            before = self._factor
            self._scale(effect.factor)
            self._climb = (1.0 - effect.factor) / effect.ramp_steps if effect.ramp_steps else 0.0
            return before, effect.factor
        self.model.stop_training = True
        return None, None

    def _go_back(self, effect: Rollback, checkpoints: MemoryCheckpoints[State]) -> _Values:
        before = self.last_step
        for variable, value in zip(self._variables(), checkpoints.restore(effect), strict=True):
            variable.assign(value.copy())  # JAX may go on with the memory that it is given, and the copy is used again
        self.last_step = effect.step
        return float(before), float(effect.step)

    def _scale(self, factor: float) -> None:
        optimizer = self.model.optimizer
        optimizer.learning_rate = float(optimizer.learning_rate) * factor / self._factor
        self._factor = factor
        if factor == 1.0:
            self._climb = 0.0

    def _variables(self) -> list[keras.Variable]:
        """What goes back. To ask for the model lets Keras put the values of the newest step into them."""
        model = self.model
        optimizer = model.optimizer
        of_optimizer = [each for each in optimizer.variables if each is not optimizer._learning_rate]
        return [*model.trainable_variables, *model.non_trainable_variables, *of_optimizer]


def _copied(variables: Sequence[keras.Variable], spare: State | None) -> State:
    """In host memory, in the place of what was dropped."""
    if spare is None:
        return [np.array(each.value) for each in variables]
    for copy, variable in zip(spare, variables, strict=True):
        np.copyto(copy, np.asarray(variable.value))
    return spare


def _checked(allow: Iterable[EffectName], run: Run | None) -> frozenset[EffectName]:
    allowed = frozenset(allow)
    if run is not None and allowed:
        raise ValueError("the run's init was told what is allowed: leave allow= out, or give project=")
    if unknown := sorted(allowed - APPLIED):
        raise ValueError(f"{unknown[0]!r} cannot be allowed to Keras' fit: {', '.join(sorted(APPLIED))} can")
    return allowed
