"""Going back: everything is as it was at the checkpoint, and what was to be skipped is not met again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holter.schemas.control import LrFactor, MomentumReset, Rollback, SkipRange
from holter.schemas.telemetry import CheckpointSaved, Parent, Started
from tests.producers.torch.loops import Training, make_loader
from tests.producers.watch import FakeWatch, await_

pytestmark = pytest.mark.torch


def checkpoint_at(watch: FakeWatch, step: int) -> str:
    def saved() -> list[str]:
        events = watch.events(CheckpointSaved)
        return [each.event.checkpoint for each in events if each.step == step]  # type: ignore[union-attr]

    return await_(saved, f"a checkpoint of step {step}")[-1]


def latch(training: Training) -> None:
    control = training.run.control
    assert control is not None
    await_(lambda: control.is_pending and control.is_armed, "the action is latched")


def rolled_back(watch: FakeWatch, training: Training, *more: object) -> None:
    effect = Rollback(checkpoint_at(watch, 5), 5)
    watch.act([effect, *more])  # type: ignore[list-item]
    latch(training)
    training.steps(1)


@pytest.mark.parametrize("loader", ["shuffled", "list"])
def test_a_run_replays_exactly_what_it_did_after_the_checkpoint(tmp_path: Path, loader: str) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, loader=make_loader() if loader == "shuffled" else list(make_loader()))
    training.steps(8)
    first = {step: loss for step, loss in training.losses.items() if step > 5}
    rolled_back(watch, training)
    assert training.guard.last_step == 5
    training.losses.clear()
    training.steps(3)
    assert {step: training.losses[step] for step in first} == first
    training.run.finish()


def test_the_new_attempt_names_its_parent_and_acknowledges(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(8)
    parent = watch.attempt()
    rolled_back(watch, training)
    training.run.finish()
    started = watch.events(Started)
    assert [each.event.parent for each in started] == [None, Parent(parent, 5)]  # type: ignore[union-attr]
    assert started[1].attempt > parent
    (ack,) = watch.acks()
    assert (ack.status, ack.attempt, ack.action_attempt, ack.step) == ("applied", started[1].attempt, parent, 9)
    assert (ack.effects[0].before, ack.effects[0].after) == (9.0, 5.0)
    assert [record.seq for record in watch.records() if record.attempt == started[1].attempt][:2] == [0, 1]


def test_effects_are_applied_together_and_the_factor_survives_the_scheduler(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(8)
    rolled_back(watch, training, SkipRange(6), MomentumReset(), LrFactor(0.5))
    rates = [group["lr"] for group in training.optimizer.param_groups]
    plain = Training(tmp_path / "plain", None)
    plain.steps(5)
    assert rates == pytest.approx([group["lr"] / 2 for group in plain.optimizer.param_groups])
    assert all(float(state["step"]) == 0 for state in training.optimizer.state.values())
    training.steps(4)
    plain.steps(4)
    after = training.optimizer.param_groups[0]["lr"]
    assert after == pytest.approx(plain.optimizer.param_groups[0]["lr"] / 2)
    training.run.finish()
    (ack,) = watch.acks()
    assert [report.effect for report in ack.effects] == ["skip_range", "rollback", "momentum_reset", "lr_factor"]


def test_skipped_data_is_not_met_again(tmp_path: Path) -> None:
    watch = FakeWatch()
    batches = [(torch.full((8, 4), float(number)), torch.zeros(8, 1)) for number in range(20)]
    training = Training(tmp_path, watch, loader=batches)
    training.steps(8)
    rolled_back(watch, training, SkipRange(6))  # steps 7, 8 and 9 consumed the batches 6, 7 and 8
    training.seen.clear()
    training.steps(4)
    assert [int(inputs[0, 0]) for inputs in training.seen] == [5, 9, 10, 11]
    training.run.finish()
