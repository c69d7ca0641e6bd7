"""What the examples without torch train: a network on a function of eight numbers, in some seconds on one core."""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp

NUM_STEPS = 600
LEARNING_RATE = 3e-3
_BURST = range(200, 205)
_BURST_FACTOR = 200.0
_TEACHER = jax.random.normal(jax.random.key(0), (8, 4))


def read_arguments(about: str | None, arguments: list[str] | None) -> argparse.Namespace:
    """``fault``."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--fault", choices=("none", "lr-burst"), default="none", help="hurt the run at step 200")
    return parser.parse_args(arguments)


def burst(fault: str, num_done: int) -> float:
    """By what the fault multiplies the learning rate, which no logger sees."""
    return _BURST_FACTOR if fault == "lr-burst" and num_done in _BURST else 1.0


def make_data(seed: int, num_samples: int) -> tuple[jax.Array, jax.Array]:
    inputs = jax.random.normal(jax.random.key(seed), (num_samples, 8))
    return inputs, jnp.tanh(inputs @ _TEACHER).sum(1, keepdims=True)


def make_weights() -> list[jax.Array]:
    first, second = (jax.random.normal(jax.random.key(fan_in), (fan_in, 256)) / fan_in**0.5 for fan_in in (8, 256))
    return [first, second, jnp.zeros((256, 1))]


def loss_of(weights: list[jax.Array], inputs: jax.Array, targets: jax.Array) -> jax.Array:
    hidden = inputs
    for weight in weights[:-1]:
        hidden = jax.nn.relu(hidden @ weight)
    return jnp.mean((hidden @ weights[-1] - targets) ** 2)


def adam(grads: Any, moments: tuple[Any, Any], step: int, rate: float) -> tuple[Any, tuple[Any, Any]]:
    """Kingma and Ba 2015, with betas of .9 and .98; returns what is to be taken off the weights, and new moments."""
    mean = jax.tree.map(lambda m, grad: 0.9 * m + 0.1 * grad, moments[0], grads)
    square = jax.tree.map(lambda s, grad: 0.98 * s + 0.02 * grad * grad, moments[1], grads)
    scale = rate * jnp.sqrt(1 - 0.98**step) / (1 - 0.9**step)
    return jax.tree.map(lambda m, s: scale * m / (jnp.sqrt(s) + 1e-8), mean, square), (mean, square)
