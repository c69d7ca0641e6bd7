"""Every way to skip leaves weights and moments as they were, and otherwise takes the plain step."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from holter.producers.torch.moments import can_reset, reset_moments
from holter.producers.torch.norms import (
    MAX_SAMPLE,
    HostSampledUpdateNorm,
    SampledUpdateNorm,
    gradient_norm,
    make_update_norm,
)
from holter.producers.torch.reflex import FusedReflex, HostReflex, Reflex, ScalerReflex, SelectingReflex, make_reflex

pytestmark = pytest.mark.torch

OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=0.1, weight_decay=0.1),
    "amsgrad": lambda weights: torch.optim.Adam(weights, lr=0.1, amsgrad=True),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True),
    "fused": lambda weights: torch.optim.AdamW(weights, lr=0.1, fused=True),
}


def weights() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(8, 4)), torch.nn.Parameter(torch.randn(4))]


def step(reflex: Reflex, optimizer: torch.optim.Optimizer, parameters: list[torch.nn.Parameter], scale: float) -> bool:
    generator = torch.Generator().manual_seed(5)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    next(iter(parameters)).grad.view(-1)[3] *= scale  # type: ignore[union-attr]
    return bool(reflex.take(optimizer, gradient_norm(parameters)))


def state(optimizer: torch.optim.Optimizer, parameters: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    moments = [value for entry in optimizer.state.values() for value in entry.values() if value is not None]
    return [each.detach().clone() for each in [*parameters, *moments]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("reflex", "name"),
    [*itertools.product((HostReflex, SelectingReflex), ("adamw", "amsgrad", "sgd")), (FusedReflex, "fused")],
)
def test_a_bad_step_changes_nothing(reflex: type[Reflex], name: str, bad: float) -> None:
    parameters = weights()
    optimizer, guard = OPTIMIZERS[name](parameters), reflex()
    assert step(guard, optimizer, parameters, 1.0)
    before = state(optimizer, parameters)
    assert not step(guard, optimizer, parameters, bad)
    assert all(torch.equal(a, b) for a, b in zip(before, state(optimizer, parameters), strict=True))
    assert step(guard, optimizer, parameters, 1.0)
    other = weights()
    plain = OPTIMIZERS[name](other)
    step(Reflex(), plain, other, 1.0)
    step(Reflex(), plain, other, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(state(plain, other), state(optimizer, parameters), strict=True))


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_a_bad_first_step_leaves_finite_moments(name: str) -> None:
    parameters = weights()
    optimizer, guard = OPTIMIZERS[name](parameters), SelectingReflex()
    step(guard, optimizer, parameters, math.nan)
    assert all(torch.equal(a, b) for a, b in zip(parameters, weights(), strict=True))
    assert all(tensor.isfinite().all() for tensor in state(optimizer, parameters))


def test_the_way_is_chosen_by_where_the_weights_are() -> None:
    optimizer = OPTIMIZERS["adamw"](weights())
    assert type(make_reflex(optimizer, enabled=True)) is HostReflex
    assert type(make_reflex(optimizer, enabled=False)) is Reflex
    assert type(make_reflex(optimizer, enabled=True, scaler=torch.amp.GradScaler("cpu"))) is ScalerReflex
    meta = torch.optim.SGD([torch.nn.Parameter(torch.empty(2, device="meta"))])
    assert type(make_reflex(meta, enabled=True)) is SelectingReflex


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_reset_moments_are_those_of_a_fresh_optimizer(name: str) -> None:
    parameters = weights()
    optimizer = OPTIMIZERS[name](parameters)
    for _ in range(5):
        step(Reflex(), optimizer, parameters, 3.0)
    assert can_reset(optimizer)
    assert reset_moments(optimizer) > 0
    fresh = [torch.nn.Parameter(parameter.detach().clone()) for parameter in parameters]
    plain = OPTIMIZERS[name](fresh)
    for _ in range(3):
        step(Reflex(), optimizer, parameters, 1.0)
        step(Reflex(), plain, fresh, 1.0)
    assert all(torch.allclose(a, b) for a, b in zip(parameters, fresh, strict=True))


def test_the_sampled_norm_estimates_the_full_one() -> None:
    torch.manual_seed(1)
    shapes = [(600, 400), (64,), (3000, 20), (7,), (256, 3, 3, 3)]
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    with torch.no_grad():
        parameters[4].data = parameters[4].data.to(memory_format=torch.channels_last)
    sampled, full = make_update_norm(parameters, "sampled"), make_update_norm(parameters, "full")
    assert isinstance(sampled, SampledUpdateNorm)
    assert full is not None
    assert sampled.num_elements <= MAX_SAMPLE
    for _ in range(3):
        with torch.no_grad():
            for scale, parameter in enumerate(parameters, 1):
                parameter.add_(scale * torch.randn(parameter.shape))
        assert float(sampled.measure()) == pytest.approx(float(full.measure()), rel=0.05)
    assert float(sampled.measure()) == 0.0


@pytest.mark.parametrize("hurt", [1.0, math.inf, math.nan])
def test_on_the_host_it_is_the_same_norm_of_the_same_sample(hurt: float) -> None:
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in ((300, 40), (64,))]
    host, plain = HostSampledUpdateNorm(parameters), SampledUpdateNorm(parameters)
    for _ in range(2):
        with torch.no_grad():
            for parameter in parameters:
                parameter.add_(hurt * torch.randn(parameter.shape))
        assert float(host.measure()) == pytest.approx(float(plain.measure()), rel=1e-5, nan_ok=True)
    host.restart()
    assert not float(host.measure()) > 0.0


def test_the_sample_is_bounded_for_many_tensors() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(64, 32)) for _ in range(700)]
    sampled = make_update_norm(parameters, "sampled")
    assert isinstance(sampled, SampledUpdateNorm)
    assert sampled.num_elements <= MAX_SAMPLE
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(1.0)
    assert float(sampled.measure()) == pytest.approx((700 * 64 * 32) ** 0.5, rel=1e-3)
