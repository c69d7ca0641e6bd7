from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from holter.producers.torch.optim import MSign, attention_projections, make
from holter.producers.torch.optim.msign import Spread
from holter.producers.torch.optim.polar import same_norm_polar, stable_rank
from tests.producers.torch.clip.gradients import FakeRanks
from tests.producers.torch.optim.tapes import give, parameters, same, train

pytestmark = pytest.mark.torch


def test_every_pth_step_ends_with_equal_singular_values() -> None:
    weights = parameters(((6, 4), (6,)))
    optimizer = make("msign", weights, every=3, lr=0.01)
    ranks = []
    for step in range(7):
        train(optimizer, weights, [step])
        ranks.append(float(stable_rank(weights[0].detach())))
    assert [rank == pytest.approx(4.0, rel=1e-4) for rank in ranks] == [False, False, True, False, False, True, False]


def test_between_them_it_is_the_base_optimizer() -> None:
    weights, others = parameters(), parameters()
    train(make("msign", weights, every=100, lr=0.01), weights, range(5))
    train(torch.optim.AdamW(others, lr=0.01), others, range(5))
    assert same(weights, others)


def test_filters_are_one_matrix() -> None:
    weights = parameters(((5, 2, 3, 3),))
    train(make("msign", weights, every=1, lr=0.0, weight_decay=0.0), weights, [0])
    expected = same_norm_polar(parameters(((5, 2, 3, 3),))[0].detach().flatten(1)).view(5, 2, 3, 3)
    torch.testing.assert_close(weights[0].detach(), expected)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = torch.nn.MultiheadAttention(8, 2)
        self.mlp = torch.nn.Linear(8, 8)


def test_the_projections_of_attention_are_found_and_nothing_else_is_touched() -> None:
    block = Block()
    targets = attention_projections(block)
    assert {id(each) for each in targets} == {id(block.self_attn.in_proj_weight), id(block.self_attn.out_proj.weight)}
    options: dict[str, Any] = {"every": 1, "lr": 0.0, "weight_decay": 0.0}
    before = block.mlp.weight.detach().clone()
    optimizer = make("msign", block.parameters(), targets=targets, **options)
    train(optimizer, list(block.parameters()), [0])
    assert torch.equal(block.mlp.weight, before)
    assert float(stable_rank(block.self_attn.out_proj.weight.detach())) == pytest.approx(8.0, rel=1e-4)


def test_a_matrix_in_parts_is_restored_as_the_whole() -> None:
    ranks = FakeRanks(2)
    expected = same_norm_polar(parameters(((6, 4),))[0].detach())

    def work(rank: int) -> torch.Tensor:
        add_up = ranks.adder(rank)

        def gather(part: torch.Tensor) -> torch.Tensor:
            slots = torch.zeros(6, 4)
            slots[3 * rank : 3 * rank + 3] = part
            return add_up(slots)

        own = torch.nn.Parameter(parameters(((6, 4),))[0].detach()[3 * rank : 3 * rank + 3].clone())
        spread = Spread(gather, lambda whole: whole[3 * rank : 3 * rank + 3])
        optimizer = MSign(torch.optim.SGD([own], lr=0.0), every=1, spread={id(own): spread})
        own.grad = torch.zeros_like(own)
        optimizer.step()
        return own.detach()

    torch.testing.assert_close(torch.cat(ranks.run(work)), expected)


def test_flags_that_skip_a_fused_step_reach_the_base() -> None:
    weights = parameters()
    optimizer = make("msign", weights, every=100, lr=0.01, fused=True)
    train(optimizer, weights, [0])
    before = [weight.detach().clone() for weight in weights]
    give(weights, 1)
    weights[0].grad[0, 0] = math.nan  # type: ignore[index]
    flagged: Any = optimizer
    flagged.grad_scale, flagged.found_inf = None, torch.tensor(1.0)
    optimizer.step()
    assert same(weights, before)
    assert not hasattr(flagged.base, "found_inf")


def test_a_state_of_the_base_alone_is_taken() -> None:
    weights = parameters()
    base = torch.optim.AdamW(weights, lr=0.01)
    train(base, weights, range(3))
    optimizer = make("msign", weights, lr=0.01)
    optimizer.load_state_dict(base.state_dict())
    assert torch.equal(optimizer.state[weights[0]]["exp_avg"], base.state[weights[0]]["exp_avg"])
