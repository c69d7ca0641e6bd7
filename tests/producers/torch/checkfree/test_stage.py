"""A stage rebuilt between processes, by itself and as an action of a guarded pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn

from holter.producers.torch import Guard
from holter.producers.torch.checkfree import Replica, Stage
from holter.schemas.control import RebuildStage
from tests.producers.torch.several_ranks import RankWatch, make_ranked_run, run_ranks
from tests.producers.watch import FakeWatch, await_

pytestmark = [pytest.mark.torch, pytest.mark.network, pytest.mark.timeout(240)]
RATE = 0.5


def flat(module: nn.Module) -> list[float]:
    return [float(value) for parameter in module.parameters() for value in parameter.detach().flatten()]


def make_blocks(rank: int) -> nn.Module:
    blocks = nn.Linear(1, 1, bias=False)
    nn.init.constant_(blocks.weight, float(rank))
    return blocks


def rebuild_middle_and_end(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    blocks, edge = make_blocks(rank), nn.Linear(1, 1, bias=False)
    nn.init.constant_(edge.weight, 10.0 + rank)
    groups = [{"params": list(blocks.parameters())}, {"params": list(edge.parameters())}]
    optimizer = torch.optim.SGD(groups, lr=RATE, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    stage = Stage(blocks, optimizer, scheduler=scheduler, replicas=[Replica(edge, rank ^ 1)], swaps=True)
    blocks.weight.grad, edge.weight.grad = torch.full((1, 1), 1.0 + 2.0 * rank), torch.full((1, 1), 1.0 + rank)
    stage.add_up_replicas()
    added = float(edge.weight.grad)
    with torch.no_grad():
        for group in optimizer.param_groups:
            group["lr"] = 0.0  # the weights stay what the test can compute with
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] = RATE
    raised = stage.rebuild(1), stage.rebuild(3)
    rates = [group["lr"] for group in optimizer.param_groups]
    scheduled = list(scheduler.base_lrs)
    has_moments = [parameter in optimizer.state for parameter in (blocks.weight, edge.weight)]
    return {
        "weights": (flat(blocks), flat(edge)),
        "raised": raised,
        "rates": rates,
        "scheduled": scheduled,
        "moments": has_moments,
        "added": added,
    }


def test_lost_stages_get_average_or_copy_and_a_fresh_start(tmp_path: Path) -> None:
    results = run_ranks(rebuild_middle_and_end, 4, tmp_path)
    before, after = 1.0 + 1e-4, 5.0 + 1e-4  # the gradient norms of stages 0 and 2
    expected = after * 2.0 / (before + after)
    assert results[1]["weights"][0] == pytest.approx([expected])
    assert results[3]["weights"][0] == [2.0]
    assert [result["weights"][0] for result in (results[0], results[2])] == [[0.0], [2.0]]
    assert [result["weights"][1] for result in results] == [[10.0], [10.0], [12.0], [12.0]]
    assert [result["added"] for result in results] == [3.0, 3.0, 7.0, 7.0]
    raised = pytest.approx(1.1 * RATE)
    assert [result["raised"] for result in results] == [(None, None), (raised, None), (None, None), (None, raised)]
    assert [result["rates"] for result in results] == [[RATE, RATE], [raised, RATE]] * 2
    assert [result["scheduled"] for result in results] == [[RATE, RATE], [raised, RATE]] * 2
    assert [result["moments"] for result in results] == [[True, True], [False, True]] * 2


def act_on_a_pipeline(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    watch = RankWatch() if rank else FakeWatch()
    blocks = make_blocks(rank)
    optimizer = torch.optim.Adam(blocks.parameters(), lr=0.0)
    run = make_ranked_run(watch, rank, num_ranks)
    guard = Guard(run, blocks, optimizer, checkpoints=folder, allow=("rebuild_stage",), stage=Stage(blocks, optimizer))

    def step() -> None:
        guard.backward(blocks(torch.ones(1, 1)).sum())
        guard.step()

    def act(*effects: Any) -> None:
        if rank == 0:
            watch.act(effects)
            control = run.control
            assert control is not None
            await_(lambda: control.is_pending and control.is_armed, "the action is latched")
        distributed.barrier()
        step()
        step()

    step()
    act(RebuildStage(1))
    act(RebuildStage(0))
    run.finish()
    return {
        "weights": flat(blocks),
        "acks": [(ack.status, [each.detail for each in ack.effects]) for ack in watch.acks()],
        "reasons": [ack.reason for ack in watch.acks()],
    }


def test_a_guarded_pipeline_rebuilds_on_order_and_refuses_what_it_cannot(tmp_path: Path) -> None:
    results = run_ranks(act_on_a_pipeline, 3, tmp_path)
    assert [result["weights"] for result in results] == [[0.0], pytest.approx([1.0]), [2.0]]
    statuses, reasons = results[0]["acks"], results[0]["reasons"]
    assert statuses == [("applied", ["stage 1 of its neighbours"]), ("refused", [])]
    assert "one neighbour only" in reasons[1]


def test_replicas_that_share_a_parameter_group_with_blocks_are_refused() -> None:
    blocks, edge = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*blocks.parameters(), *edge.parameters()], lr=0.1)
    with pytest.raises(ValueError, match="parameter groups of their own"):
        Stage(blocks, optimizer, replicas=[Replica(edge, 1)])
