"""What a train step of Keras does, measured inside the compiled step of its JAX backend."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras

from holter.producers.integrations.jax_norms import gradient_norm, sampled, update_norm_since
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, UPDATE_NORM

_MEASURED, _SAMPLE = "holter", "holter_sample"
_sampled = jax.jit(sampled)


class MeasuredSteps:
    """Wraps this model's train step until :meth:`remove`; ``fit`` compiles it once more for it.

    Args:
        fit: an object of this one ``fit``. What another, which an exception ended, has left on the model is removed.

    Raises:
        ValueError: its steps cannot be measured.
    """

    def __init__(self, model: keras.Model, fit: object) -> None:
        left = getattr(vars(model).get("train_step"), "__self__", None)
        if isinstance(left, MeasuredSteps) and left.fit is not fit:
            left.remove()
        if reason := _objection(model):
            raise ValueError(reason)
        self.fit: object = fit
        self.measured: dict[str, Any] = {}
        """Of the newest step, by metric: scalars on the device, for which nothing waited."""
        self._newest: list[Any] = []
        self._sample: list[jax.Array] = []
        """Of the newest weights: the step itself overwrites those that it is given."""
        self._model = model
        self._own_step = model.train_step
        model.train_step = self._train_step
        model.make_train_function(force=True)
        self._execute = model.train_function
        model.train_function = self._listen

    def remove(self) -> None:
        """Leaves the model as it was; its next ``fit`` compiles anew."""
        vars(self._model).pop("train_step", None)
        self._model.train_function = None

    def _listen(self, state: Any, iterator: Any) -> tuple[Any, Any]:
        weights = state[0]
        if not _are_same(weights, self._newest):  # the first step, or somebody has changed them
            self._sample = _sampled(weights)
        logs, state = self._execute(state, zip(iterator, [self._sample], strict=False))
        self.measured, self._sample, self._newest = logs.pop(_MEASURED), logs.pop(_SAMPLE), state[0]
        return logs, state

    def _train_step(self, state: Any, data: Any) -> tuple[dict[str, Any], Any]:
        """Traced. The mean over the epoch begins anew for the step, so that it is the step's own loss, and is put
        together again after it."""
        weights, layers, optimizer_values, metrics = state
        data, sample = data
        total, count = self._places_of_loss()
        alone = list(metrics)
        alone[total], alone[count] = jnp.zeros_like(metrics[total]), jnp.zeros_like(metrics[count])
        rate = self._rate(optimizer_values)
        with _Gradients(self._model.optimizer) as gradients:
            logs, after = self._own_step((weights, layers, optimizer_values, alone), data)
        joined = list(after[3])
        joined[total], joined[count] = joined[total] + metrics[total], joined[count] + metrics[count]
        moved, sample = update_norm_since(sample, after[0])
        measured = {
            LOSS: after[3][total] / after[3][count],
            UPDATE_NORM: moved,
            LEARNING_RATE: rate,
        }
        if gradients.norm is not None:
            measured[GRAD_NORM] = gradients.norm
        logs = {**logs, "loss": joined[total] / joined[count], _MEASURED: measured, _SAMPLE: sample}
        return logs, (*after[:3], joined)

    def _places_of_loss(self) -> tuple[int, int]:
        tracker = next(metric for metric in self._model.metrics if metric.name == "loss")
        places = {id(variable): place for place, variable in enumerate(self._model.metrics_variables)}
        return places[id(tracker.total)], places[id(tracker.count)]

    def _rate(self, values: Any) -> Any:
        optimizer = self._model.optimizer
        with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, values, strict=True))):
            return jnp.asarray(keras.ops.convert_to_tensor(optimizer.learning_rate))


class _Gradients:
    """Hears the gradients of a step while it is traced, before the optimizer clips them."""

    def __init__(self, optimizer: Any) -> None:
        self.norm: jax.Array | None = None
        self._optimizer = optimizer
        self._own_apply = optimizer.stateless_apply
        self._is_scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)

    def __enter__(self) -> _Gradients:
        if not self._is_scaled:
            self._optimizer.stateless_apply = self._apply
        return self

    def __exit__(self, *error: object) -> None:
        vars(self._optimizer).pop("stateless_apply", None)

    def _apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        self.norm = gradient_norm(grads)  # None is no leaf
        return self._own_apply(optimizer_variables, grads, trainable_variables)


def _are_same(weights: list[Any], others: list[Any]) -> bool:
    return len(weights) == len(others) and all(one is other for one, other in zip(weights, others, strict=True))


def _objection(model: keras.Model) -> str:
    if keras.backend.backend() != "jax":
        return f"HolterCallback measures Keras' JAX backend, this is {keras.backend.backend()}: set KERAS_BACKEND=jax"
    if keras.config.is_nnx_enabled():
        return "HolterCallback cannot measure the steps of Keras with NNX: disable it"
    if type(model).train_step is not keras.Model.train_step:
        return "this model has a train_step of its own: use run.log and run.poll_actions in it, not HolterCallback"
    if "train_step" in vars(model):
        return "this model has a HolterCallback already: one for each fit"
    if model.steps_per_execution != 1:
        return "HolterCallback sees one batch at a time: compile the model with steps_per_execution=1"
    return ""
