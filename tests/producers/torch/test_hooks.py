"""Hooks beside a loop that takes its own steps."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from holter.producers.torch import Guard  # noqa: E402
from holter.producers.torch.hooks import Hooks, inner_optimizer  # noqa: E402
from holter.schemas.control import CheckpointNow, LrFactor, MomentumReset, Rollback, SkipRange, Stop  # noqa: E402
from holter.schemas.telemetry import CheckpointSaved, Started  # noqa: E402
from tests.producers.torch.loops import ALL, make_loader, make_model, make_run  # noqa: E402
from tests.producers.watch import FakeWatch, await_  # noqa: E402

pytestmark = pytest.mark.torch


class Loop:
    """The user's: forward, backward, clip, step, schedule, clear."""

    def __init__(self, folder: Path | None, watch: FakeWatch | None = None, **settings: Any) -> None:
        self.model = make_model()
        kind = settings.pop("optimizer", torch.optim.AdamW)
        self.optimizer = kind(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 100)
        self.scaler = settings.get("scaler")
        self.run = make_run(watch)
        settings = {"scheduler": self.scheduler, "checkpoint_every": 5, "allow": ALL, **settings}
        self.hooks = Hooks(self.run, self.model, self.optimizer, checkpoints=folder, **settings)
        self._batches = itertools.cycle(make_loader(shuffle=False))
        self.losses: list[float] = []

    def step(self, poison: float = 1.0) -> None:
        inputs, targets = next(self._batches)
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets) * poison
        self.hooks.add_loss(loss)
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())

    def steps(self, number: int) -> None:
        for _ in range(number):
            self.step()

    def weights(self) -> list[Any]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def latched(loop: Loop) -> None:
    control = loop.run.control
    assert control is not None
    await_(lambda: control.is_armed and control.is_pending, "an action")


def test_each_step_is_published_as_it_was() -> None:
    watch = FakeWatch()
    loop = Loop(None, watch, update_norm="full")
    norms, updates, rates = [], [], []
    for _ in range(3):
        before = loop.weights()
        rates.append(loop.optimizer.param_groups[0]["lr"])
        handle = loop.optimizer.register_step_pre_hook(
            lambda optimizer, *_: norms.append(_norm([weight.grad for weight in loop.model.parameters()]))
        )
        loop.step()
        handle.remove()
        updates.append(_norm([new - old for new, old in zip(loop.weights(), before, strict=True)]))
    loop.run.finish()
    assert list(watch.values("train/loss").values()) == pytest.approx(loop.losses)
    assert list(watch.values("train/grad_norm").values()) == pytest.approx(norms)
    assert list(watch.values("train/update_norm").values()) == pytest.approx(updates)
    assert list(watch.values("optim/lr").values()) == pytest.approx(rates)
    assert list(watch.values("train/loss")) == [1, 2, 3]


def test_losses_of_micro_batches_are_averaged_and_the_norm_before_clipping_counts() -> None:
    watch = FakeWatch()
    loop = Loop(None, watch, accumulate=2)
    for loss in (1.0, 3.0):
        loop.hooks.add_loss(torch.tensor(loss))
    loop.model(torch.ones(1, 4)).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(loop.model.parameters(), 0.1)
    loop.hooks.see_gradients(norm)
    loop.optimizer.step()
    loop.run.finish()
    assert watch.values("train/loss") == {1: 2.0}
    assert watch.values("train/grad_norm")[1] == pytest.approx(float(norm))
    assert watch.batches()[0].accumulation == 2


def test_what_the_loop_logs_without_a_step_belongs_to_the_step_in_progress() -> None:
    watch = FakeWatch()
    loop = Loop(None, watch)
    loop.run.log({"train/tokens": 7.0})
    loop.step()
    loop.run.finish()
    assert watch.values("train/tokens") == {1: 7.0}


def test_it_says_what_it_can_do(caplog: pytest.LogCaptureFixture) -> None:
    watch = FakeWatch()
    with caplog.at_level(logging.INFO, logger="holter"):
        loop = Loop(None, watch, scheduler=None)
    loop.run.finish()
    (started,) = watch.events(Started)
    assert started.event.effects == ["momentum_reset", "nan_guard"]
    text = caplog.text
    assert "it can apply momentum_reset, nan_guard" in text
    assert "lr_factor needs scheduler=" in text
    assert "going back needs checkpoints=" in text
    assert "this loop clips by itself" in text


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_a_gradient_that_is_not_finite_reaches_neither_weights_nor_moments(optimizer: Any) -> None:
    watch = FakeWatch()
    loop = Loop(None, watch, optimizer=optimizer)
    loop.steps(2)
    before, moments = loop.weights(), _moments(loop.optimizer)
    loop.step(poison=float("nan"))
    assert all(map(torch.equal, before, loop.weights()))
    assert all(map(torch.equal, moments, _moments(loop.optimizer)))
    loop.step()
    assert not torch.equal(before[0], loop.weights()[0])
    loop.run.finish()
    assert watch.not_applied() == [3]
    assert watch.values("train/update_norm")[3] == 0.0


def test_a_step_that_the_scaler_skips_is_counted_and_not_applied() -> None:
    watch = FakeWatch()
    loop = Loop(None, watch, scaler=torch.amp.GradScaler("cpu", init_scale=8.0))
    loop.step()
    before = loop.weights()
    loop.step(poison=float("inf"))
    assert all(map(torch.equal, before, loop.weights()))
    loop.step()
    loop.run.finish()
    assert list(watch.values("optim/loss_scale").values()) == [8.0, 4.0, 4.0]
    assert watch.not_applied() == [2]
    assert watch.values("train/grad_norm")[1] < 8.0


def test_a_rollback_restores_all_but_the_data(tmp_path: Path) -> None:
    watch = FakeWatch()
    loop = Loop(tmp_path, watch)
    loop.steps(5)
    kept, moments, rate = loop.weights(), _moments(loop.optimizer), loop.optimizer.param_groups[0]["lr"]
    saved = await_(lambda: watch.events(CheckpointSaved), "a checkpoint")[0].event
    loop.steps(3)
    watch.act([Rollback(saved.checkpoint, 5), SkipRange(5), LrFactor(0.5), MomentumReset()])
    latched(loop)
    loop.step()
    assert loop.hooks.last_step == 5
    (ack,) = await_(watch.acks, "an acknowledgement")
    assert (ack.status, ack.step) == ("applied", 9)
    assert {report.effect for report in ack.effects} == {"rollback", "skip_range", "lr_factor", "momentum_reset"}
    assert all(map(torch.equal, kept, loop.weights()))
    assert moments
    assert not any(moment.any() for moment in _moments(loop.optimizer))
    assert loop.optimizer.param_groups[0]["lr"] == pytest.approx(rate / 2)
    loop.steps(2)
    loop.run.finish()
    attempts = [record.attempt for record in watch.events(Started)]
    assert list(watch.values("train/loss", attempts[1])) == [6, 7]
    assert watch.values("train/loss", attempts[1])[6] == pytest.approx(loop.losses[9])


def test_going_back_to_a_copy_in_memory_needs_no_file(tmp_path: Path) -> None:
    watch = FakeWatch()
    loop = Loop(tmp_path, watch, memory_every=10, checkpoint_every=0)
    loop.steps(10)
    kept = loop.weights()
    saved = await_(lambda: watch.events(CheckpointSaved), "a copy")[0].event
    assert isinstance(saved, CheckpointSaved)
    assert saved.tier == "memory"
    loop.steps(2)
    watch.act([Rollback(saved.checkpoint, 10)])
    latched(loop)
    loop.step()
    assert loop.hooks.last_step == 10
    assert all(map(torch.equal, kept, loop.weights()))
    loop.run.finish()
    assert watch.acks()[0].status == "applied"
    assert not list(tmp_path.rglob("*.pt"))


def test_a_second_rollback_skips_only_what_came_after_the_first(tmp_path: Path) -> None:
    watch = FakeWatch()
    loop = Loop(tmp_path, watch)
    loop.steps(5)
    name = await_(lambda: watch.events(CheckpointSaved), "a checkpoint")[0].event.checkpoint
    ranges = []
    for number in (1, 2):
        loop.steps(2)
        watch.act([Rollback(name, 5), SkipRange(6)])
        latched(loop)
        loop.step()
        ack = await_(lambda number=number: watch.acks()[number - 1 :], "an acknowledgement")[0]  # type: ignore[misc]
        assert ack.status == "applied"
        ranges.append(next(report.detail for report in ack.effects if report.effect == "skip_range"))
        await_(lambda number=number: len(watch.events(Started)) == number + 1, "an attempt")  # type: ignore[misc]
    assert ranges == ["batches 6 to 7", "batches 9 to 10"]
    loop.run.finish()


def test_the_factor_on_the_learning_rate_outlives_the_scheduler(tmp_path: Path) -> None:
    watch = FakeWatch()
    loop, bare = Loop(tmp_path, watch), Loop(None)
    loop.steps(2)
    bare.steps(8)
    watch.act([LrFactor(0.25)])
    latched(loop)
    loop.steps(6)
    rates = [each.optimizer.param_groups[0]["lr"] for each in (loop, bare)]
    assert rates[0] == pytest.approx(rates[1] / 4)
    loop.run.finish()


def test_a_loop_of_its_own_boundary_acts_there_and_is_told_to_stop(tmp_path: Path) -> None:
    watch = FakeWatch()
    loop = Loop(tmp_path, watch, boundary="loop", ends_loop=True)
    loop.step()
    watch.act([Stop(), CheckpointNow()])
    latched(loop)
    loop.step()
    assert not loop.hooks.is_stopped
    loop.hooks.end_step()
    assert loop.hooks.is_stopped
    assert not loop.hooks.is_step_open
    await_(lambda: watch.events(CheckpointSaved), "a checkpoint")
    loop.run.finish()


def test_a_step_with_a_closure_is_seen() -> None:
    watch = FakeWatch()
    loop = Loop(None, watch)

    def closure() -> Any:
        loop.optimizer.zero_grad()
        loss = loop.model(torch.ones(2, 4)).square().mean()
        loop.hooks.add_loss(loss)
        loss.backward()
        return loss

    loss = loop.optimizer.step(closure)
    norm = _norm([weight.grad for weight in loop.model.parameters()])
    loop.run.finish()
    assert watch.values("train/loss")[1] == pytest.approx(loss.item())
    assert watch.values("train/grad_norm")[1] == pytest.approx(norm)


def test_a_closure_whose_gradient_is_not_finite_changes_nothing() -> None:
    loop = Loop(None)
    before = loop.weights()

    def closure() -> Any:
        loss = loop.model(torch.full((2, 4), torch.nan)).mean()
        loss.backward()
        return loss

    loop.optimizer.step(closure)
    assert all(map(torch.equal, before, loop.weights()))


def test_it_goes_on_from_the_step_of_a_loop_that_resumed() -> None:
    watch = FakeWatch()
    loop = Loop(None, watch, last_step=40)
    loop.step()
    loop.run.finish()
    assert list(watch.values("train/loss")) == [41]


def test_an_optimizer_without_foreach_or_in_a_wrapper_is_seen() -> None:
    class Wrapper:
        def __init__(self, optimizer: Any) -> None:
            self.optimizer = optimizer

    watch = FakeWatch()
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    run = make_run(watch)
    Hooks(run, model, Wrapper(Wrapper(optimizer)), checkpoints=None)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    run.finish()
    assert watch.values("train/update_norm")[1] > 0


def test_wrong_use_is_told_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(None)
    with pytest.raises(ValueError, match="this optimizer is guarded already"):
        Hooks(make_run(None), loop.model, loop.optimizer, checkpoints=None)
    other = torch.optim.SGD(loop.model.parameters())
    with pytest.raises(ValueError, match="is guarded already: one Guard, Hooks or integration for each run"):
        Hooks(loop.run, loop.model, other, checkpoints=None)
    with pytest.raises(ValueError, match="is guarded already"):
        Guard(loop.run, loop.model, other, checkpoints=tmp_path)
    with pytest.raises(ValueError, match="dict is no torch optimizer with step hooks"):
        inner_optimizer({})
    with pytest.raises(ValueError, match=r"allow has \['cure'\]"):
        Hooks(make_run(None), loop.model, other, allow=("cure",))  # type: ignore[arg-type]
    loop.step()
    loop.optimizer.step()
    loop.optimizer.step()
    assert [line for line in caplog.messages if "without a loss" in line] == [
        "step() was called without a loss since the last one"
    ]


def test_a_step_that_nothing_saw_is_told_and_its_loss_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    watch = FakeWatch()
    loop = Loop(None, watch, boundary="loop")
    loop.hooks.add_loss(torch.tensor(2.0))
    loop.hooks.end_step()
    loop.run.finish()
    assert "AdamW.step() was not seen" in caplog.text
    assert watch.values("train/loss") == {1: 2.0}


def test_after_the_run_the_optimizer_is_free_again() -> None:
    loop = Loop(None)
    loop.run.finish()
    Hooks(make_run(None), loop.model, loop.optimizer, checkpoints=None).close()
    loop.step()


def _norm(tensors: list[Any]) -> float:
    return float(torch.linalg.vector_norm(torch.cat([tensor.flatten() for tensor in tensors])))


def _moments(optimizer: Any) -> list[Any]:
    return [
        value.clone() for state in optimizer.state.values() for name, value in state.items()
        if isinstance(value, torch.Tensor) and name != "step"
    ]  # fmt: skip
