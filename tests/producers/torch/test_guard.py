"""The guarded step is the plain step, plus what is published."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from holter import producers
from holter.producers.torch import Guard
from holter.schemas.telemetry import CheckpointSaved, Finished, Started
from tests.producers.torch.loops import Training, make_loader, make_model, make_run
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def plain_steps(
    num_steps: int, accumulate: int = 1, clip: float | None = None
) -> tuple[list[torch.Tensor], Counter[str]]:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    batches = iter(make_loader(50))
    counting = Counting()
    for number in range(num_steps):
        with counting if number else nullcontext():
            for _ in range(accumulate):
                inputs, targets = next(batches)
                loss = torch.nn.functional.mse_loss(model(inputs), targets) / accumulate
                loss.backward()  # type: ignore[no-untyped-call]
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
    return [parameter.detach() for parameter in model.parameters()], counting.counts


def moments(training: Training) -> list[torch.Tensor]:
    return [
        value.clone() for entry in training.optimizer.state.values() for value in entry.values() if value is not None
    ]


@pytest.mark.parametrize("settings", [{}, {"accumulate": 2}, {"clip": 0.1}, {"update_norm": "full"}])
def test_the_weights_are_those_of_the_plain_loop(tmp_path: Path, settings: dict[str, Any]) -> None:
    expected, _ = plain_steps(8, settings.get("accumulate", 1), settings.get("clip"))
    training = Training(tmp_path, FakeWatch(), loader=make_loader(50), **settings)
    training.steps(8 * settings.get("accumulate", 1))
    assert training.guard.last_step == 8
    for weight, other in zip(training.weights(), expected, strict=True):
        assert torch.equal(weight, other)
    training.run.finish()


def test_a_step_adds_no_synchronisation(tmp_path: Path) -> None:
    _, plain = plain_steps(11)
    training = Training(tmp_path, FakeWatch(), loader=make_loader(50), checkpoint_every=5)
    training.steps(1)
    with Counting() as counting:
        for inputs, targets in training._batches:
            training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs), targets))
            training.guard.step()
            if training.guard.last_step == 11:
                break
    training.run.finish()
    key = "aten._local_scalar_dense.default"
    assert plain["aten.linear.default"] or plain["aten.addmm.default"]
    assert counting.counts[key] <= plain[key]


def test_every_step_is_published(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, update_norm="full")
    before = training.weights()
    training.steps(1)
    after = training.weights()
    training.steps(6)
    training.run.finish()
    expected = torch.cat([(a - b).flatten() for a, b in zip(after, before, strict=True)]).norm()
    assert watch.values("train/update_norm")[1] == pytest.approx(float(expected), rel=1e-5)
    assert watch.values("train/loss") == pytest.approx(training.losses)
    for metric in ("train/grad_norm", "optim/lr", "perf/step_seconds"):
        assert sorted(watch.values(metric)) == list(range(1, 8))
    assert watch.values("optim/lr")[1] == 0.01
    assert watch.batches()[0].update_norm_source == "full"


def test_values_logged_in_the_loop_belong_to_the_step_in_progress(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch)
    for _ in range(3):
        training.run.log({"mine": float(training.guard.last_step)})
        training.steps(1)
    training.run.log({"mine": 9.0}, step=50)
    training.run.finish()
    assert watch.values("mine") == {1: 0.0, 2: 1.0, 3: 2.0, 50: 9.0}
    assert len([batch for batch in watch.batches() if 1 in batch.step_numbers()]) == 1


def test_the_start_says_what_is_possible_and_allowed(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, allow=("nan_guard", "rollback"), autonomy={"rollback": "approve"})
    training.steps(1)
    training.run.finish()
    start = watch.events(Started)[0].event
    assert isinstance(start, Started)
    assert {"rollback", "skip_range", "momentum_reset", "lr_factor"} <= set(start.effects)
    assert start.allow == ["nan_guard", "rollback"]
    assert start.autonomy == {"rollback": "approve"}
    assert start.checkpoint_every_steps == 5
    assert isinstance(watch.records()[-1].event, Finished)


def test_a_loader_that_only_goes_on_cannot_be_rolled_back(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, loader=iter(make_loader()))
    training.steps(2)
    training.run.finish()
    start = watch.events(Started)[0].event
    assert isinstance(start, Started)
    assert not {"rollback", "skip_range"} & set(start.effects)


def test_the_loop_goes_over_epochs_until_the_step(tmp_path: Path) -> None:
    training = Training(tmp_path, None, until=9, loader=make_loader(4))
    while training.step():
        pass
    assert training.guard.last_step == 9
    once = Training(tmp_path / "once", None, until=None, loader=make_loader(4))
    while once.step():
        pass
    assert once.guard.last_step == 4
    nothing: list[Any] = []
    assert not Training(tmp_path / "empty", None, until=5, loader=nothing).step()


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_a_non_finite_gradient_reaches_neither_weights_nor_moments(tmp_path: Path, optimizer: Any) -> None:
    watch = FakeWatch()
    training = Training(tmp_path, watch, optimizer=optimizer, allow=("nan_guard",))
    training.steps(2)
    before = training.weights()
    state = moments(training)
    inputs, targets = next(training._batches)
    training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs * math.nan), targets))
    training.guard.step()
    assert all(torch.equal(a, b) for a, b in zip(training.weights(), before, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(moments(training), state, strict=True))
    training.steps(1)
    training.run.finish()
    assert training.guard.num_skipped == 1
    assert math.isnan(watch.values("train/loss")[3])
    assert math.isnan(watch.values("train/grad_norm")[3])
    assert watch.values("train/update_norm")[3] == 0.0
    assert watch.not_applied() == [3]


def test_without_the_reflex_the_plain_loop_is_left_alone(tmp_path: Path) -> None:
    training = Training(tmp_path, FakeWatch(), allow=())
    inputs, targets = next(training._batches)
    training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs * math.nan), targets))
    training.guard.step()
    training.run.finish()
    assert all(weight.isnan().all() for weight in training.weights())


def test_more_than_one_rank_publishes_and_applies_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = FakeWatch()
    run = producers.init("tests", "run", bus=watch.bus, environ={"WORLD_SIZE": "2", "RANK": "0"})
    model = make_model()
    guard = Guard(run, model, torch.optim.SGD(model.parameters(), lr=0.1), checkpoints=tmp_path, allow={"lr_factor"})
    for inputs, targets in guard.batches(make_loader(3)):
        guard.backward(torch.nn.functional.mse_loss(model(inputs), targets))
        guard.step()
    run.finish()
    start = watch.events(Started)[0].event
    assert isinstance(start, Started)
    assert (start.effects, start.num_ranks, run.control) == ([], 2, None)
    assert not watch.events(CheckpointSaved)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["attempts.json"]
    assert len([line for line in caplog.messages if "more than one rank" in line]) == 1
    assert sorted(watch.values("train/loss")) == [1, 2, 3]


@pytest.mark.parametrize("settings", [{"allow": {"magic"}}, {"accumulate": 0}, {"keep": 0}])
def test_settings_that_cannot_be_used_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    model = make_model()
    with pytest.raises(ValueError, match=r"allow has|at least 1"):
        Guard(make_run(None), model, torch.optim.SGD(model.parameters()), checkpoints=tmp_path, **settings)


def test_a_schedule_that_needs_a_metric_is_refused(tmp_path: Path) -> None:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters())
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(ValueError, match="needs a metric"):
        Guard(make_run(None), model, optimizer, scheduler=schedule, checkpoints=tmp_path)


def test_a_scaler_is_stepped_and_its_scale_reported(tmp_path: Path) -> None:
    watch = FakeWatch()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    training = Training(tmp_path, watch, scaler=scaler)
    training.steps(2)
    inputs, targets = next(training._batches)
    training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs * math.inf), targets))
    training.guard.step()
    training.steps(1)
    training.run.finish()
    assert [watch.values("optim/loss_scale")[step] for step in (1, 2, 3, 4)] == [1024.0, 1024.0, 1024.0, 512.0]
    assert training.guard.num_skipped == 1
    assert all(weight.isfinite().all() for weight in training.weights())
