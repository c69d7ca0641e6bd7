"""torchdata's ``StatefulDataLoader`` in a guarded loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from holter.schemas.control import SkipRange
from tests.producers.torch.loops import Training
from tests.producers.torch.test_rollback import rolled_back
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch
torchdata = pytest.importorskip("torchdata.stateful_dataloader")


def make_loader(num_batches: int = 6, **settings: Any) -> Any:
    torch.manual_seed(5)  # its sampler draws a seed when it is made
    inputs = torch.arange(num_batches * 8.0).reshape(-1, 1).repeat(1, 4) / 50
    return torchdata.StatefulDataLoader(TensorDataset(inputs, inputs[:, :1]), batch_size=8, shuffle=True, **settings)


@pytest.mark.parametrize(("steps", "num_batches"), [(8, 6), (8, 20), (7, 5)])
def test_going_back_replays_the_same_batches(tmp_path: Path, steps: int, num_batches: int) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, loader=make_loader(num_batches))
    training.steps(steps)
    first = {step: loss for step, loss in training.losses.items() if step > 5}
    batches = training.seen[5:]
    rolled_back(watch, training)
    assert training.guard.last_step == 5
    training.losses.clear()
    training.seen.clear()
    training.steps(steps - 5)
    training.run.finish()
    assert all(map(torch.equal, batches, training.seen))
    assert {step: training.losses[step] for step in first} == first


def test_a_new_process_goes_on_with_the_same_batches(tmp_path: Path) -> None:
    whole = Training(tmp_path / "whole", None, loader=make_loader(8))
    whole.steps(20)
    first = Training(tmp_path, None, loader=make_loader(8))
    first.steps(13)
    torch.manual_seed(99)
    second = Training(tmp_path, None, loader=make_loader(8), resume=True)
    second.steps(10)
    assert all(map(torch.equal, whole.seen[10:], second.seen))
    assert second.losses == {step: whole.losses[step] for step in range(11, 21)}


def test_bad_data_is_left_out_on_replay(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, loader=make_loader(20))
    training.steps(8)
    fifth = training.seen[5]
    rolled_back(watch, training, SkipRange(6))
    bad = {float(each[0, 0]) for each in training.seen[6:]}
    training.seen.clear()
    training.steps(4)
    training.run.finish()
    assert torch.equal(training.seen[0], fifth)
    assert not bad & {float(each[0, 0]) for each in training.seen}
