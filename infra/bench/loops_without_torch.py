"""The trainings without torch whose step is measured: JAX by its own loop, and Keras on JAX.

What is computed only for Holter is part of its cost: the update norm, and in a loop that does not clip the gradient
norm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from holter.infra.bench.trained import Trained
from holter.producers import Run
from holter.producers.integrations.jax_norms import gradient_norm, update_norm
from holter.producers.memory_checkpoints import MemoryCheckpoints

WIDTH, _NUM_HIDDEN = 640, 4
_RATE, _CLIP = 1e-3, 1.0
SIZES = (64, 256)
"""Samples a batch, to try what a step takes."""
cpu_seconds = time.process_time  # XLA computes on threads of its own


def make_weights() -> list[jax.Array]:
    keys = jax.random.split(jax.random.key(0), _NUM_HIDDEN)
    return [jax.random.normal(key, (WIDTH, WIDTH)) / WIDTH**0.5 for key in keys]


def make_batch(num_samples: int) -> tuple[jax.Array, jax.Array]:
    inputs = jax.random.normal(jax.random.key(1), (num_samples, WIDTH))
    return inputs, jnp.tanh(inputs)


def loss_of(weights: list[jax.Array], inputs: jax.Array, targets: jax.Array) -> jax.Array:
    hidden = inputs
    for weight in weights[:-1]:
        hidden = jax.nn.relu(hidden @ weight)
    return jnp.mean((hidden @ weights[-1] - targets) ** 2)


Step = Callable[[Any, Any, Any], tuple[Any, Any, dict[str, jax.Array]]]
"""Of weights, moments and a batch; new weights and moments, and what was measured."""


def make_step(clips: bool, measures: bool) -> Step:
    """Compiled."""

    def step(weights: Any, moments: Any, batch: Any) -> tuple[Any, Any, dict[str, jax.Array]]:
        loss, grads = jax.value_and_grad(loss_of)(weights, *batch)
        norm = gradient_norm(grads)  # XLA leaves out what nobody uses
        if clips:
            grads = jax.tree.map(lambda grad: grad * jnp.minimum(1.0, _CLIP / norm), grads)
        updates, moments = _adam(grads, moments)
        moved = jax.tree.map(jnp.subtract, weights, updates)
        norms = {"train/grad_norm": norm, "train/update_norm": update_norm(weights, moved)} if measures else {}
        return moved, moments, {"train/loss": loss, **norms}

    compiled: Step = jax.jit(step)
    return compiled


class Reports:
    """What the loop of the JAX example does for Holter after each step."""

    def __init__(self, run: Run, checkpoint_every: int) -> None:
        self._run = run
        self._checkpoints = MemoryCheckpoints[Any](run, checkpoint_every)

    def end_step(self, step: int, measured: dict[str, jax.Array], state: Any) -> None:
        self._run.log({**measured, "optim/lr": _RATE}, step, commit=True)
        if self._checkpoints.is_due(step):
            self._checkpoints.keep(step, state)
        for action in self._run.poll_actions():
            action.refuse("nothing is applied here")


def jax_loop(trained: Trained, clips: bool = True) -> None:
    weights = make_weights()
    moments = (jax.tree.map(jnp.zeros_like, weights),) * 2
    batch = make_batch(trained.batch_size)
    reports = None if trained.run is None else Reports(trained.run, trained.checkpoint_every)
    take_step = make_step(clips, measures=reports is not None)
    for step in range(1, trained.num_steps + 1):
        trained.begin_step()
        weights, moments, measured = take_step(weights, moments, batch)
        measured["train/loss"].block_until_ready()  # as a loop does that shows its loss
        if reports is not None:
            reports.end_step(step, measured, (weights, moments))


def jax_unclipped(trained: Trained) -> None:
    """The gradient norm is one more pass over the gradients, as in :func:`keras_unclipped`."""
    jax_loop(trained, clips=False)


def keras_fit(trained: Trained, clips: bool = True) -> None:
    import keras

    from holter.producers.integrations.keras import HolterCallback

    class Steps(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            trained.begin_step()

    model = keras.Sequential([keras.layers.Dense(WIDTH, "relu") for _ in range(_NUM_HIDDEN)])
    model.compile(keras.optimizers.Adam(_RATE, global_clipnorm=_CLIP if clips else None), "mse")
    inputs, targets = (np.asarray(each) for each in make_batch(trained.batch_size))
    callbacks: list[Any] = [Steps()]
    if trained.run is not None:
        callbacks.append(HolterCallback(run=trained.run, checkpoint_every=trained.checkpoint_every))
    model.fit(
        inputs, targets, batch_size=trained.batch_size, epochs=trained.num_steps, verbose=0, callbacks=callbacks
    )  # fmt: skip


def keras_unclipped(trained: Trained) -> None:
    keras_fit(trained, clips=False)


def seconds_of(batch_size: int) -> float:
    """CPU time of the process, of the fastest of a few steps."""
    weights, batch = make_weights(), make_batch(batch_size)
    moments = (jax.tree.map(jnp.zeros_like, weights),) * 2
    step = make_step(clips=True, measures=False)
    return min(_seconds(lambda: jax.block_until_ready(step(weights, moments, batch))) for _ in range(6))


def _seconds(step: Callable[[], Any]) -> float:
    begun = time.process_time()
    step()
    return time.process_time() - begun


def _adam(grads: Any, moments: Any) -> tuple[Any, Any]:
    """Kingma and Ba 2015, without the correction of the first steps."""
    mean = jax.tree.map(lambda m, grad: 0.9 * m + 0.1 * grad, moments[0], grads)
    square = jax.tree.map(lambda s, grad: 0.999 * s + 0.001 * grad * grad, moments[1], grads)
    return jax.tree.map(lambda m, s: _RATE * m / (jnp.sqrt(s) + 1e-8), mean, square), (mean, square)
