"""Norms of a step inside a function that JAX compiles: device scalars, for which nothing waits.

In the loop's own jitted step::

    measured = {"train/loss": loss, "train/grad_norm": gradient_norm(grads), "train/update_norm": update_norm(old, new)}
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MAX_SAMPLE = 65_536
_MIN_SAMPLE = 8_192
_RUN_LENGTH = 256
_SAMPLE_SEED = 0x48


def gradient_norm(gradients: Any) -> jax.Array:
    """The L2 norm over all elements of a tree, in float32.

    It is written as Keras writes its own, so that XLA computes one norm where ``global_clipnorm`` clips by it.

    >>> float(gradient_norm({"weight": jnp.array([[3.0]]), "bias": jnp.array([4.0])}))
    5.0
    """
    return jnp.sqrt(sum(_square(leaf) for leaf in jax.tree.leaves(gradients)))


def update_norm(before: Any, after: Any) -> jax.Array:
    """‖after − before‖₂ of two trees of the same shapes, estimated from :func:`sampled`.

    For a step that donates its weights take :func:`update_norm_since`: XLA copies all that it would overwrite while
    something still has to read it.

    >>> float(update_norm([jnp.zeros(3)], [jnp.array([2.0, 3.0, 6.0])]))
    7.0
    """
    return update_norm_since(sampled(before), after)[0]


def update_norm_since(sample: list[jax.Array], weights: Any) -> tuple[jax.Array, list[jax.Array]]:
    """How far the weights moved since the sample, and the sample of them for the next step."""
    now = sampled(weights)
    return gradient_norm([new - old for new, old in zip(now, sample, strict=True)]), now


def sampled(weights: Any) -> list[jax.Array]:
    """A fixed random sample of a tree's elements, scaled so that squares over it estimate those over the tree.

    It is at most 64k elements: runs of 256 neighbours of every large leaf, and whole small leaves. Up to 8k elements
    nothing is left out. All of them would be one more pass over the weights. Of leaves that lie on several devices
    take all, by ``gradient_norm`` of the difference: runs of a flat view would be sent around.
    """
    leaves = jax.tree.leaves(weights)
    num_all = sum(leaf.size for leaf in leaves)
    share = min(1.0, min(MAX_SAMPLE, max(_MIN_SAMPLE, num_all // 64)) / max(1, num_all))
    random = np.random.default_rng(_SAMPLE_SEED)
    return [_sample(leaf, share, random) for leaf in leaves]


def _sample(leaf: jax.Array, share: float, random: np.random.Generator) -> jax.Array:
    num_places = leaf.size // _RUN_LENGTH
    num_runs = max(1, math.ceil(share * num_places))
    if num_places < 2 or num_runs >= num_places:
        return leaf.astype(jnp.float32)
    places = np.sort(random.choice(num_places, num_runs, replace=False))
    runs = leaf.reshape(-1)[: num_places * _RUN_LENGTH].reshape(-1, _RUN_LENGTH)[places]
    return runs.astype(jnp.float32) * math.sqrt(leaf.size / (num_runs * _RUN_LENGTH))


def _square(leaf: jax.Array) -> jax.Array:
    return jnp.sum(jnp.square(leaf.astype(jnp.float32)))
