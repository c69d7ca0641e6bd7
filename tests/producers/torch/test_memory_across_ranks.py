"""The memory tier in a job of several ranks: all of them keep the same copies and go back to the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holter.producers.checkpoint_names import checkpoint_name
from holter.producers.torch.snapshot import num_bytes_of
from holter.schemas.control import Rollback
from tests.producers.torch.several_ranks import RankedTraining, data_parallel, fully_sharded, run_ranks
from tests.producers.watch import await_

pytestmark = [pytest.mark.torch, pytest.mark.network, pytest.mark.timeout(240)]
WRAPS: dict[str, Any] = {"ddp": data_parallel, "fsdp2": fully_sharded}


def go_back_to_memory(rank: int, num_ranks: int, folder: Path, wrap: str) -> dict[str, Any]:
    training = RankedTraining(rank, num_ranks, folder, wrap=WRAPS[wrap], checkpoint_every=0, memory_every=10)
    kept = training.guard._recovery._checkpoints
    assert kept is not None
    training.step()
    if rank == 1:  # has room for one copy fewer than rank 0
        kept.memory._budget_bytes = 3 * num_bytes_of(training.guard._recovery._objects.state())
    training.steps(19)
    name = checkpoint_name(training.run.attempt, 20)
    at_twenty = training.weights()
    if rank == 0:
        training.watch.health(name, 20)
        control = training.run.control
        assert control is not None
        await_(lambda: control.health, "health")
    training.steps(62)
    copies = [copy.manifest.step for copy in kept.memory._copies]
    training.act(Rollback(name, 20))
    training.step()
    first = {step: training.losses[step] for step in (21, 22)}
    training.step()
    restored, step = training.weights(), training.guard.last_step
    training.losses.clear()
    training.steps(2)
    training.run.finish()
    return {
        "copies": copies,
        "step": step,
        "restored": restored == at_twenty,
        "replayed": {at: training.losses[at] for at in (21, 22)} == first,
        "acks": [ack.status for ack in training.watch.acks()],
        "disarmed": training.num_disarmed,
    }


@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_all_ranks_go_back_to_the_same_copy(tmp_path: Path, wrap: str) -> None:
    results = run_ranks(go_back_to_memory, 2, tmp_path, wrap)
    assert [result["copies"] for result in results] == [[20, 60, 80]] * 2
    for result in results:
        assert (result["step"], result["restored"], result["replayed"], result["disarmed"]) == (20, True, True, 0)
    assert results[0]["acks"] == ["applied"]
