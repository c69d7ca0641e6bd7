"""On a CUDA device: the same clips and updates as on the CPU, and nothing waits for the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from holter.producers.torch.clip import CLIPPERS, make
from tests.producers.torch.clip.gradients import give
from tests.producers.torch.clip.test_clipper import OPTIONS
from tests.producers.torch.optim.tapes import NAMES, made, parameters

pytestmark = [
    pytest.mark.torch,
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@contextmanager
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def hand_over(weights: list[torch.nn.Parameter], others: list[torch.nn.Parameter]) -> None:
    for weight, other in zip(weights, others, strict=True):
        assert weight.grad is not None
        other.grad = weight.grad.cuda()


@pytest.mark.parametrize("name", CLIPPERS)
def test_a_clipper_does_the_same_without_waiting(name: str) -> None:
    here, there = make(name, **OPTIONS[name]), make(name, **OPTIONS[name])
    weights, others = parameters(), parameters(device="cuda")
    for step, scale in enumerate([1.0] * 8 + [50.0, 1.0]):
        give(weights, step, scale)
        hand_over(weights, others)
        expected = here.clip(weights)
        here.commit(expected.is_finite)
        with no_waiting():
            found = there.clip(others)
            there.commit(found.is_finite)
        for one, other in zip(expected, found, strict=True):
            torch.testing.assert_close(other.cpu(), one, rtol=1e-5, atol=1e-6)
        for weight, twin in zip(weights, others, strict=True):
            torch.testing.assert_close(twin.grad.cpu(), weight.grad, rtol=1e-5, atol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", sorted(NAMES.keys() - {"spam_sparse", "skip_step"}))
def test_an_optimizer_does_the_same_without_waiting(name: str) -> None:
    """Sparse positions are drawn by the device's own generator, and a skipped step counts there."""
    weights, others = parameters(), parameters(device="cuda")
    here, there = made(name, weights), made(name, others)
    for step in range(8):
        give(weights, step)
        hand_over(weights, others)
        here.step()
        if name == "msign":  # a decomposition waits
            there.step()
        else:
            with no_waiting():
                there.step()
        for weight, twin in zip(weights, others, strict=True):
            torch.testing.assert_close(twin.detach().cpu(), weight.detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("fused", [True, False])
def test_skip_step_decides_on_the_device(fused: bool) -> None:
    weights = parameters(device="cuda")
    optimizer = made("skip_step", weights, fused=fused, window=32, max_score=6.0)
    for step in range(40):
        for weight in weights:
            weight.grad = torch.ones_like(weight) * (1 + 0.01 * (step % 3))
        with no_waiting():
            optimizer.step()
    before = [weight.detach().clone() for weight in weights]
    for weight in weights:
        weight.grad = torch.full_like(weight, 1e3)
    with no_waiting():
        optimizer.step()
    assert all(torch.equal(weight, was) for weight, was in zip(weights, before, strict=True))
