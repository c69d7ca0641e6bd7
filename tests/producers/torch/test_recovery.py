"""Checkpoints that are kept, damaged, resumed from, and attempts that ended in the middle of something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holter.producers.torch import lineage as lineage_module
from holter.producers.torch.checkpoint_files import CheckpointFiles, Manifest
from holter.producers.torch.lineage import Intent, Lineage
from holter.producers.torch.mismatch import Mismatch
from holter.producers.torch.recovery import checkpoint_folder
from holter.schemas.control import CheckpointNow, Effect, LrFactor, Rollback, SkipRange, Stop
from holter.schemas.telemetry import (
    CheckpointQuarantined,
    CheckpointSaved,
    Finished,
    LearningRateChanged,
    Parent,
    Resumed,
    Started,
)
from tests.producers.torch.loops import Training
from tests.producers.torch.test_rollback import checkpoint_at, latch
from tests.producers.watch import FakeWatch, await_

pytestmark = pytest.mark.torch


def files(folder: Path) -> CheckpointFiles:
    return CheckpointFiles(checkpoint_folder(folder, "run"))


def manifest_at(folder: Path, step: int) -> Manifest:
    return next(manifest for manifest in files(folder).manifests() if manifest.step == step)


def damage(folder: Path, step: int) -> None:
    path = files(folder).data_path(manifest_at(folder, step).name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def act(watch: FakeWatch, training: Training, *effects: Effect) -> None:
    watch.act(effects, attempt=training.run.attempt)
    latch(training)
    training.steps(1)


def test_three_are_kept_and_the_healthy_one_besides(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(5)
    watch.health(checkpoint_at(watch, 5), 5)
    control = training.run.control
    assert control is not None
    await_(lambda: control.health, "health")
    training.steps(20)
    training.run.finish()
    assert [manifest.step for manifest in files(tmp_path).manifests()] == [5, 15, 20, 25]
    events = [each.event for each in watch.events(CheckpointSaved)]
    assert all(isinstance(event, CheckpointSaved) and event.save_seconds > 0 and event.num_bytes for event in events)


def test_a_damaged_checkpoint_is_refused_and_set_aside(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(7)
    damage(tmp_path, 5)
    before = training.weights()
    watch.act([Rollback(checkpoint_at(watch, 5), 5), LrFactor(0.5)])
    latch(training)
    training.steps(1)
    training.run.finish()
    (ack,) = watch.acks()
    assert (ack.status, ack.effects) == ("refused", [])
    assert "SHA-256" in ack.reason
    assert "SHA-256" in watch.events(CheckpointQuarantined)[0].event.reason  # type: ignore[union-attr]
    assert training.guard.last_step == 8
    assert not any(torch.equal(a, b) for a, b in zip(before, training.weights(), strict=True))
    assert training.guard._recovery._objects.learning_rate.factor == 1.0
    assert 5 not in [manifest.step for manifest in files(tmp_path).manifests()]


def test_weights_that_are_not_finite_are_no_checkpoint(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(4)
    with torch.no_grad():
        next(iter(training.model.parameters())).fill_(float("nan"))
    training.steps(2)
    act(watch, training, Rollback(checkpoint_at(watch, 5), 5))
    training.run.finish()
    assert "non-finite" in watch.acks()[0].reason


@pytest.mark.parametrize(
    ("effects", "reason"),
    [
        ([Rollback("nowhere", 5)], "no checkpoint"),
        ([LrFactor(0.5), LrFactor(0.2)], "named twice"),
        ([LrFactor(0.5), SkipRange(10**6)], "not known"),
    ],
)
def test_what_cannot_be_done_as_a_whole_is_not_begun(tmp_path: Path, effects: list[Effect], reason: str) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(7)
    act(watch, training, *effects)
    training.run.finish()
    assert reason in watch.acks()[0].reason
    assert training.optimizer.param_groups[0]["lr"] == pytest.approx(training.scheduler.get_last_lr()[0])  # type: ignore[union-attr]
    assert training.guard._recovery._objects.learning_rate.factor == 1.0


def test_a_restore_that_fails_half_way_leaves_the_run_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Training(tmp_path / "plain", None, scheduled=False)
    plain.steps(8)
    watch = FakeWatch()
    training = Training(tmp_path, watch, scheduled=False)
    training.steps(7)
    real = training.optimizer.load_state_dict
    calls: list[int] = []

    def failing(state: dict[str, object]) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no room")
        real(state)

    monkeypatch.setattr(training.optimizer, "load_state_dict", failing)
    act(watch, training, SkipRange(6), Rollback(checkpoint_at(watch, 5), 5))
    assert training.guard.last_step == 8
    assert all(torch.equal(a, b) for a, b in zip(training.weights(), plain.weights(), strict=True))
    training.run.finish()
    assert "no room" in watch.acks()[0].reason
    lineage = Lineage(checkpoint_folder(tmp_path, "run"))
    assert (lineage.intents, lineage.skipped) == ([], [])


def test_a_process_resumes_exactly_where_the_checkpoint_was(tmp_path: Path) -> None:
    whole = Training(tmp_path / "whole", None, checkpoint_every=100)
    whole.steps(12)
    first = Training(tmp_path, FakeWatch())
    first.steps(8)
    first.run.finish()
    watch = FakeWatch()
    torch.manual_seed(99)
    second = Training(tmp_path, watch, resume=True)
    assert second.guard.last_step == 5
    second.steps(7)  # into the next epoch
    second.run.finish()
    assert second.losses == {step: whole.losses[step] for step in range(6, 13)}
    assert watch.events(Started)[0].event.parent.step == 5  # type: ignore[union-attr]
    assert len(watch.events(Resumed)) == 1


def test_resuming_falls_back_to_the_next_older_whole_one(tmp_path: Path) -> None:
    first = Training(tmp_path, FakeWatch())
    first.steps(13)
    first.run.finish()
    damage(tmp_path, 10)
    watch = FakeWatch()
    second = Training(tmp_path, watch, resume=True)
    assert second.guard.last_step == 5
    second.steps(1)
    second.run.finish()
    assert len(watch.events(CheckpointQuarantined)) == 1


def test_resuming_passes_over_what_cannot_be_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Training(tmp_path, FakeWatch())
    first.steps(13)
    first.run.finish()
    damage(tmp_path, 10)
    monkeypatch.setattr(CheckpointFiles, "quarantine", full)
    second = Training(tmp_path, None, resume=True)
    assert second.guard.last_step == 5
    assert second.run.notices.counts["quarantine"] == 1


def test_resuming_after_a_rollback_stays_on_the_surviving_line(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(12)
    act(watch, training, SkipRange(7), Rollback(checkpoint_at(watch, 5), 5), LrFactor(0.5))
    training.run.finish()
    assert [manifest.step for manifest in files(tmp_path).manifests()] == [5, 10]
    later = Training(tmp_path, FakeWatch(), resume=True)
    assert later.guard.last_step == 5
    later.steps(1)
    (bad,) = later.guard._recovery.lineage.skipped
    assert (bad.first, bad.last, bad.first_step, bad.last_step) == (7, 12, 8, 13)
    assert (bad.first_sample, bad.last_sample, bad.first_token) == (56, 103, None)
    later.run.finish()


def test_the_factor_survives_a_resume(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(2)
    act(watch, training, LrFactor(0.5))
    training.steps(5)
    rate = training.optimizer.param_groups[0]["lr"]
    training.run.finish()
    assert watch.events(LearningRateChanged)
    later = Training(tmp_path, FakeWatch(), resume=True)
    assert later.guard._recovery._objects.learning_rate.factor == 0.5
    later.steps(3)
    assert later.optimizer.param_groups[0]["lr"] == pytest.approx(rate)
    later.run.finish()


def test_an_unfinished_intent_is_acknowledged_as_interrupted(tmp_path: Path) -> None:
    lineage = Lineage(checkpoint_folder(tmp_path, "run"))
    lineage.begin_attempt(None, 1000)
    lineage.announce(Intent("action-9", 1000, 4, "c", 5, "d"))
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(1)
    training.run.finish()
    (ack,) = watch.acks()
    assert (ack.action, ack.action_attempt, ack.ordinal, ack.status) == ("action-9", 1000, 4, "interrupted")
    assert watch.events(Started)[0].event.parent == Parent(1000, 0)  # type: ignore[union-attr]
    assert Lineage(checkpoint_folder(tmp_path, "run")).intents == []


def test_attempts_grow_even_when_the_clock_goes_back(tmp_path: Path) -> None:
    lineage = Lineage(tmp_path)
    first = lineage.begin_attempt(None, 5000)
    assert Lineage(tmp_path).begin_attempt(Parent(first, 3), 1) == 5001


def test_a_checkpoint_on_demand_and_a_stop(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(2)
    act(watch, training, CheckpointNow(), Stop())
    assert not training.step()
    assert training.guard.is_stopped
    training.run.finish()
    assert [manifest.step for manifest in files(tmp_path).manifests()] == [3]
    assert isinstance(watch.records()[-1].event, Finished)


def test_a_checkpoint_of_another_number_of_ranks_does_not_fit(tmp_path: Path) -> None:
    training = Training(tmp_path, None)
    training.steps(1)
    objects = training.guard._recovery._objects
    objects.check(objects.state())
    with pytest.raises(Mismatch, match="a job with 2 ranks, this one has 1"):
        objects.check(replace(objects, num_ranks=2).state())


def test_a_full_disk_costs_a_checkpoint_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "save", full)
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(12)
    training.run.finish()
    assert training.run.stats()["notice_save_failed"] == 2
    assert not list(checkpoint_folder(tmp_path, "run").glob(".*.new"))
    assert len(watch.values("train/loss")) == 12


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "ü", "x:y"])
def test_a_run_name_is_one_folder_below_the_root(tmp_path: Path, name: str) -> None:
    assert checkpoint_folder(tmp_path, name).resolve().parent == tmp_path.resolve()


@pytest.mark.parametrize("where", ["consumed_after", "state"])
def test_no_failure_of_an_action_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(7)
    name = checkpoint_at(watch, 5)

    def failing(*_: object) -> None:
        raise MemoryError("no room")

    recovery = training.guard._recovery
    kind = type(recovery._objects.data.history) if where == "consumed_after" else type(recovery._objects)
    watch.act([SkipRange(6), Rollback(name, 5), LrFactor(0.5)])
    latch(training)
    with monkeypatch.context() as patched:
        patched.setattr(kind, where, failing)
        training.steps(1)
    training.steps(2)
    training.run.finish()
    (ack,) = watch.acks()
    assert (ack.status, "no room" in ack.reason) == ("refused", True)
    assert (recovery.lineage.skipped, recovery.lineage.intents) == ([], [])
    assert recovery._objects.learning_rate.factor == 1.0


def test_a_disk_that_fills_up_in_an_action_costs_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(7)
    name = checkpoint_at(watch, 5)
    watch.act([SkipRange(6), Rollback(name, 5)])
    latch(training)
    with monkeypatch.context() as patched:
        patched.setattr(lineage_module, "write_record", full)
        training.steps(1)
    training.steps(2)
    training.run.finish()
    assert [ack.status for ack in watch.acks()] == ["refused"]
    assert training.guard.last_step == 10
