"""Norms inside a function that JAX compiles."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from holter.producers.integrations.jax_norms import (  # noqa: E402
    MAX_SAMPLE,
    gradient_norm,
    sampled,
    update_norm,
    update_norm_since,
)

pytestmark = pytest.mark.frameworks
RNG = np.random.default_rng(0)


def by_hand(*leaves: np.ndarray) -> float:
    return math.sqrt(sum(float(np.square(leaf, dtype=np.float64).sum()) for leaf in leaves))


def test_a_small_tree_is_read_whole() -> None:
    before = {"kernel": RNG.normal(size=(60, 70)), "bias": RNG.normal(size=70)}
    after = {name: leaf + RNG.normal(size=leaf.shape) for name, leaf in before.items()}
    moved = by_hand(*(after[name] - leaf for name, leaf in before.items()))
    assert float(update_norm(before, after)) == pytest.approx(moved, rel=1e-4)


def test_of_a_large_tree_a_sample_stands_for_all() -> None:
    scales = (0.1, 1.0, 3.0)
    before = [np.zeros((1000, 700), "float32")] * 3
    after = [RNG.normal(scale=scale, size=(1000, 700)).astype("float32") for scale in scales]
    assert sum(leaf.size for leaf in sampled(after)) <= MAX_SAMPLE
    assert float(jax.jit(update_norm)(before, after)) == pytest.approx(by_hand(*after), rel=0.03)


def test_the_sample_of_a_step_is_the_next_ones_beginning() -> None:
    lines = [[RNG.normal(size=(300, 300)).astype("float32")] for _ in range(3)]
    sample = sampled(lines[0])
    for old, new in itertools.pairwise(lines):
        norm, sample = jax.jit(update_norm_since)(sample, new)
        assert float(norm) == pytest.approx(float(update_norm(old, new)), rel=1e-6)


def test_half_precision_does_not_overflow() -> None:
    assert float(gradient_norm([jax.numpy.full(4, 200.0, "float16")])) == pytest.approx(400.0)
