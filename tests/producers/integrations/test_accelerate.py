"""A loop of Accelerate, with a bus in memory."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from accelerate import Accelerator  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from holter.producers.integrations.accelerate import HolterTracker, watch  # noqa: E402
from holter.schemas.control import LrFactor  # noqa: E402
from holter.schemas.telemetry import Finished  # noqa: E402
from tests.producers.torch.loops import make_run  # noqa: E402
from tests.producers.watch import FakeWatch, await_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.frameworks]


class Loop:
    def __init__(self, told: FakeWatch, accumulate: int = 1, **settings: Any) -> None:
        torch.manual_seed(0)
        run = make_run(told)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, 10)
        data = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4)
        tracker = HolterTracker(run)
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate, log_with=[tracker])
        self.model, self.optimizer, self.loader, self.scheduler = self.accelerator.prepare(
            model, optimizer, data, scheduler
        )
        self.accelerator.init_trackers("tests")
        self.hooks = watch(
            self.accelerator, self.model, self.optimizer, self.scheduler, run=run, checkpoints=None, **settings
        )
        self.losses: list[float] = []
        self.norms: list[float] = []

    def steps(self, num_batches: int) -> None:
        for _, (inputs,) in zip(range(num_batches), self.loader, strict=False):
            with self.accelerator.accumulate(self.model):
                loss = (self.model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.norms.append(float(self.accelerator.clip_grad_norm_(self.model.parameters(), 0.01)))
                self.accelerator.log({"train/own": loss.item(), "note": "text"})
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
            self.losses.append(loss.item())


def test_values_are_those_of_each_step() -> None:
    told = FakeWatch()
    loop = Loop(told)
    loop.steps(3)
    loop.accelerator.end_training()
    assert list(told.values("train/loss").values()) == pytest.approx(loop.losses)
    assert list(told.values("train/own").values()) == pytest.approx(loop.losses)
    assert list(told.values("train/grad_norm").values()) == pytest.approx(loop.norms)
    assert min(loop.norms) > 0.1
    assert told.events(Finished)


def test_accumulated_batches_are_one_step() -> None:
    told = FakeWatch()
    loop = Loop(told, accumulate=2)
    loop.steps(4)
    loop.accelerator.end_training()
    means = [(one + two) / 2 for one, two in zip(loop.losses[::2], loop.losses[1::2], strict=True)]
    assert list(told.values("train/loss").values()) == pytest.approx(means)
    assert told.batches()[0].accumulation == 2


def test_a_factor_on_the_learning_rate_outlives_the_prepared_scheduler() -> None:
    told = FakeWatch()
    loop = Loop(told, allow={"lr_factor"})
    loop.steps(1)
    told.act([LrFactor(0.5)])
    control = loop.hooks.run.control
    assert control is not None
    await_(lambda: control.is_armed and control.is_pending, "an action")
    loop.steps(3)
    assert loop.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.6 / 2)
    loop.accelerator.end_training()


def test_a_loop_is_watched_once() -> None:
    told = FakeWatch()
    loop = Loop(told)
    with pytest.raises(ValueError, match="this optimizer is guarded already"):
        watch(loop.accelerator, loop.model, loop.optimizer, run=make_run(None), checkpoints=None)
    with pytest.raises(ValueError, match="give either project="):
        watch(loop.accelerator, loop.model, loop.optimizer)
    loop.accelerator.end_training()
