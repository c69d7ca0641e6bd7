"""A model in pieces is clipped as the whole is."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from holter.producers.torch.clip import Clipper, ClipReport, Ranks, make
from tests.producers.torch.clip.gradients import FakeRanks, give, parameters

pytestmark = pytest.mark.torch

SHAPES = ((8, 4), (12, 8), (4,))
SCALES = [1.0, 1.0, 1.0, 1.0, 60.0, 1.0]
STEPS = len(SCALES)
OPTIONS: dict[str, dict[str, Any]] = {
    "globalgc": {},
    "adagc": {"warmup_steps": 3},
    "zclip": {"warmup_steps": 3},
    "ema_mad": {"min_samples": 3},
    "olmo": {},
    "autoclip": {"percentile": 60.0},
    "agc": {"ratio": 0.2},
}


@functools.cache
def whole_run(name: str) -> tuple[list[ClipReport], list[torch.Tensor]]:
    clipper, weights = make(name, **OPTIONS[name]), parameters(SHAPES)
    reports = []
    for step, scale in enumerate(SCALES):
        give(weights, step, scale)
        reports.append(clipper.clip(weights))
        clipper.commit()
    return reports, [weight.grad for weight in weights if weight.grad is not None]


def close(here: ClipReport, there: ClipReport) -> None:
    for one, other in zip(here[:3], there[:3], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", OPTIONS)
def test_shards_of_the_inputs_are_clipped_as_the_whole(name: str, number: int) -> None:
    """Matrices split by columns, as a row-parallel layer is; the bias is replicated and counts once."""
    ranks = FakeRanks(number)
    expected, gradients = whole_run(name)

    def work(rank: int) -> list[ClipReport]:
        full = parameters(SHAPES)
        own = [torch.nn.Parameter(each.detach().chunk(number, dim=-1)[rank].clone()) for each in full[:2]]
        own.append(torch.nn.Parameter(full[2].detach().clone()))
        spread = Ranks(ranks.adder(rank), counts=lambda each: each.ndim > 1 or rank == 0)
        options: dict[str, Any] = {"splits_units": lambda each: each.ndim > 1} if name == "agc" else {}
        clipper: Clipper = make(name, ranks=spread, **OPTIONS[name], **options)
        reports = []
        for step, scale in enumerate(SCALES):
            give(full, step, scale)
            for part, each in zip(own[:2], full[:2], strict=True):
                assert each.grad is not None
                part.grad = each.grad.chunk(number, dim=-1)[rank].clone()
            assert full[2].grad is not None
            own[2].grad = full[2].grad.clone()
            reports.append(clipper.clip(own))
            clipper.commit()
        for part, gradient in zip(own[:2], gradients[:2], strict=True):
            torch.testing.assert_close(part.grad, gradient.chunk(number, dim=-1)[rank], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(own[2].grad, gradients[2], rtol=1e-5, atol=1e-7)
        return reports

    for reports in ranks.run(work):
        for here, there in zip(reports, expected, strict=True):
            close(here, there)
    assert ranks.num_sums == STEPS * (3 if name == "agc" else 1)


@pytest.mark.parametrize("name", ["globalgc", "zclip", "ema_mad", "autoclip"])
def test_stages_of_a_pipeline_share_the_global_norm(name: str) -> None:
    """Every rank has other parameters, and other numbers of them."""
    ranks = FakeRanks(2)
    expected, gradients = whole_run(name)

    def work(rank: int) -> list[ClipReport]:
        full = parameters(SHAPES)
        own = full[:1] if rank == 0 else full[1:]
        clipper = make(name, ranks=Ranks(ranks.adder(rank)), **OPTIONS[name])
        reports = []
        for step, scale in enumerate(SCALES):
            give(full, step, scale)
            reports.append(clipper.clip(own))
            clipper.commit()
        for weight, gradient in zip(own, gradients[:1] if rank == 0 else gradients[1:], strict=True):
            torch.testing.assert_close(weight.grad, gradient, rtol=1e-5, atol=1e-7)
        return reports

    for reports in ranks.run(work):
        for here, there in zip(reports, expected, strict=True):
            close(here, there)


@pytest.mark.parametrize("name", ["globalgc", "adagc", "agc"])
def test_a_bad_value_on_one_rank_stops_all(name: str) -> None:
    ranks = FakeRanks(2)

    def work(rank: int) -> tuple[bool, bool]:
        weights = parameters()
        give(weights, rank, scale=100.0)
        if rank == 1:
            weights[1].grad[0] = torch.nan  # type: ignore[index]
        before = weights[0].grad.clone()  # type: ignore[union-attr]
        report = make(name, ranks=Ranks(ranks.adder(rank))).clip(weights)
        return bool(report.is_finite), torch.equal(weights[0].grad, before)  # type: ignore[arg-type]

    assert ranks.run(work) == [(False, True), (False, True)]
