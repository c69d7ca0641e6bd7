"""Both tiers in a guarded loop: what is announced, kept, verified, preferred and set aside."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from holter.producers.torch.checkpoint_files import CheckpointFiles, DamagedCheckpoint, check_finite
from holter.producers.torch.checkpoint_ledger import CheckpointLedger
from holter.producers.torch.checkpoints import Checkpoints
from holter.producers.torch.recovery import checkpoint_folder
from holter.schemas.control import Rollback
from holter.schemas.telemetry import CheckpointQuarantined, CheckpointSaved, CheckpointVerified
from tests.producers.torch.loops import Training
from tests.producers.torch.test_recovery import act, damage, files
from tests.producers.torch.test_rollback import checkpoint_at
from tests.producers.watch import FakeWatch, await_

pytestmark = pytest.mark.torch


def kept_by(training: Training) -> Checkpoints:
    kept = training.guard._recovery._checkpoints
    assert kept is not None
    return kept


def heal(watch: FakeWatch, training: Training, step: int) -> None:
    name = checkpoint_at(watch, step)
    watch.health(name, step)
    control = training.run.control
    assert control is not None
    await_(lambda: control.health is not None and control.health.checkpoint == name, "health")


def saves(watch: FakeWatch) -> list[tuple[int, str]]:
    events: list[Any] = watch.events(CheckpointSaved)
    return [(each.step, each.event.tier) for each in events]


def states(folder: Path) -> dict[int, str]:
    return {entry.step: entry.state for entry in CheckpointLedger(checkpoint_folder(folder, "run")).entries}


def test_a_file_is_read_back_off_the_step(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(6)
    training.run.finish()
    (verified,) = watch.events(CheckpointVerified)
    assert verified.event.load_seconds > 0  # type: ignore[union-attr]
    assert states(tmp_path) == {5: "verified"}


def test_a_file_cut_short_while_it_is_read_back_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(tmp_path, FakeWatch())
    training.steps(5)
    training.run.finish()
    kept, load = files(tmp_path), torch.load

    def load_and_cut(path: Path, **options: Any) -> Any:
        state = load(path, **options)
        os.truncate(path, 0)
        return state

    monkeypatch.setattr(torch, "load", load_and_cut)
    kept.verify(kept.manifests()[-1])


def test_damage_is_found_before_it_is_needed(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, memory_every=5)
    training.steps(4)
    with torch.no_grad():
        next(iter(training.model.parameters())).fill_(float("nan"))
    training.steps(3)
    training.run.finish()
    (aside,) = watch.events(CheckpointQuarantined)
    assert "non-finite" in aside.event.reason  # type: ignore[union-attr]
    assert states(tmp_path) == {5: "quarantined"}
    assert files(tmp_path).manifests() == []
    assert kept_by(training).memory.find(aside.event.checkpoint) is None  # type: ignore[union-attr]


def test_a_run_of_damage_neither_loses_the_healthy_one_nor_fills_the_disk(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    training.steps(5)
    heal(watch, training, 5)
    training.steps(1)
    with torch.no_grad():
        next(iter(training.model.parameters())).fill_(float("nan"))
    training.steps(20)
    training.run.finish()
    assert [manifest.step for manifest in files(tmp_path).manifests()] == [5]
    assert states(tmp_path)[5] == "pinned"
    assert len(list(checkpoint_folder(tmp_path, "run").glob("*.pt"))) == 3


def test_besides_the_newest_healthy_one_the_next_older_is_kept_should_that_be_damaged(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, keep=1)
    for step in (5, 10, 15):
        training.steps(5)
        heal(watch, training, step)
    training.steps(10)
    damage(tmp_path, 15)
    act(watch, training, Rollback(checkpoint_at(watch, 15), 15))
    act(watch, training, Rollback(checkpoint_at(watch, 10), 10))
    training.run.finish()
    assert [manifest.step for manifest in files(tmp_path).manifests()] == [10, 25]
    assert [ack.status for ack in watch.acks()] == ["refused", "applied"]


def test_the_pin_survives_a_restart_without_a_watch(tmp_path: Path) -> None:
    watch = FakeWatch()
    first = Training(tmp_path, watch)
    first.steps(5)
    heal(watch, first, 5)
    first.steps(6)
    first.run.finish()
    second = Training(tmp_path, None, resume=True)
    second.steps(15)
    assert [manifest.step for manifest in files(tmp_path).manifests()] == [5, 15, 20, 25]


def test_a_step_that_both_tiers_keep_is_announced_once(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, memory_every=10, checkpoint_every=20)
    training.steps(41)
    training.run.finish()
    assert saves(watch) == [(10, "memory"), (20, "disk"), (30, "memory"), (40, "disk")]


def test_what_is_kept_no_longer_is_told(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, memory_every=10, checkpoint_every=40, keep=1)
    training.steps(91)
    training.run.finish()
    events: list[Any] = watch.events(CheckpointSaved)
    named = {each.event.checkpoint: each.step for each in events}
    dropped = [named[name] for each in events for name in each.event.dropped]
    kept = kept_by(training)
    left = [step for name, step in named.items() if kept.find(name) is not None]
    assert sorted(dropped + left) == sorted(named.values())
    assert left == [60, 70, 80, 90]


def test_going_back_to_memory_is_exact_and_can_be_done_twice(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, memory_every=10, checkpoint_every=25)
    training.steps(14)
    name = checkpoint_at(watch, 10)
    first = {step: loss for step, loss in training.losses.items() if step > 10}
    for _ in range(2):
        act(watch, training, Rollback(name, 10))
        assert training.guard.last_step == 10
        training.losses.clear()
        training.steps(4)
        assert training.losses == first
    training.run.finish()
    assert [ack.status for ack in watch.acks()] == ["applied", "applied"]
    assert files(tmp_path).manifests() == []


def test_memory_spares_the_disk_and_makes_up_for_its_damage(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, memory_every=5, checkpoint_every=10)
    training.steps(12)
    damage(tmp_path, 10)
    act(watch, training, Rollback(checkpoint_at(watch, 10), 10))
    training.run.finish()
    assert watch.acks()[0].status == "applied"


def test_a_damaged_copy_gives_way_to_the_file(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, memory_every=10, checkpoint_every=10)
    training.steps(12)
    name = checkpoint_at(watch, 10)
    copy = kept_by(training).memory._copies[0]
    next(iter(copy.state["model"].values())).fill_(float("inf"))
    act(watch, training, Rollback(name, 10))
    training.run.finish()
    assert (watch.acks()[0].status, training.guard.last_step) == ("applied", 10)


def test_without_leave_to_go_back_nothing_is_copied(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, memory_every=10, allow=("nan_guard",), checkpoint_every=40)
    training.steps(22)
    training.run.finish()
    assert saves(watch) == []


def test_a_budget_that_is_too_small_is_said_once(tmp_path: Path) -> None:
    training = Training(tmp_path, None, memory_every=10, memory_gib=1e-6)
    training.steps(30)
    assert training.run.notices.counts["memory_tier"] == 1


def written_and_verified(kept: CheckpointFiles, name: str, state: dict[str, Any]) -> None:
    kept.verify(kept.write(name, 1, 1, state, 0))


def test_the_first_is_loaded_and_of_the_next_the_bytes_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, plain = CheckpointFiles(tmp_path), {"model": {"w": torch.ones(3)}, "random": (3, [1, 2], None)}
    written_and_verified(kept, "first", plain)
    monkeypatch.setattr(torch, "load", lambda *given, **options: pytest.fail("loaded"))
    written_and_verified(kept, "second", plain)
    kept.data_path("second").write_bytes(b"else")
    with pytest.raises(DamagedCheckpoint, match="is not what was written"):
        kept.verify(next(each for each in kept.manifests() if each.name == "second"))


def test_what_holds_more_than_plain_values_is_always_loaded(tmp_path: Path) -> None:
    kept = CheckpointFiles(tmp_path)
    written_and_verified(kept, "first", {"model": {}})
    with pytest.raises(DamagedCheckpoint, match="cannot be loaded"):
        written_and_verified(kept, "second", {"scheduler": {"decay": [Path("a")]}})


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float64]
)
def test_weights_of_any_precision_are_looked_at(dtype: torch.dtype) -> None:
    check_finite("a.pt", {"w": torch.ones(3).to(dtype)})
    with pytest.raises(DamagedCheckpoint, match="non-finite value in w"):
        check_finite("a.pt", {"w": torch.tensor([1.0, math.nan]).to(dtype)})


@pytest.mark.parametrize(("values", "is_finite"), [([3e38, 3e38], True), ([1.0, math.inf], False), ([math.nan], False)])
def test_large_weights_are_finite_though_their_sum_is_not(values: list[float], is_finite: bool) -> None:
    model = {"w": torch.tensor(values)}
    if is_finite:
        check_finite("a.pt", model)
        return
    with pytest.raises(DamagedCheckpoint, match="non-finite value in w"):
        check_finite("a.pt", model)
