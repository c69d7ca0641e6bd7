"""The documented interface of Megatron-Core's optimizers (core/optimizer/optimizer.py of 0.16), which want CUDA."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from holter.producers.integrations.megatron import watch  # noqa: E402
from holter.schemas.control import LrFactor  # noqa: E402
from holter.schemas.telemetry import Started  # noqa: E402
from tests.producers.torch.loops import make_run  # noqa: E402
from tests.producers.watch import FakeWatch, await_  # noqa: E402

pytestmark = pytest.mark.torch


class MixedPrecision:
    """``MixedPrecisionOptimizer``: unscales, skips what is not finite, clips, steps."""

    def __init__(self, inner: torch.optim.Optimizer, is_scaled: bool) -> None:
        self.optimizer = inner
        self.config: Any = None
        self.grad_scaler = object() if is_scaled else None
        self.scale = torch.tensor([1024.0] if is_scaled else [1.0])

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def get_loss_scale(self) -> torch.Tensor:
        return self.scale

    def get_grad_norm(self) -> float:
        return float(torch.nn.utils.get_total_norm([weight.grad for weight in self.param_groups[0]["params"]]))

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def step(self) -> tuple[bool, float | None, None]:
        for weight in self.param_groups[0]["params"]:
            weight.grad /= self.scale
        norm = self.get_grad_norm()
        if self.grad_scaler is not None and not math.isfinite(norm):
            self.scale /= 2
            return False, None, None
        torch.nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 0.01)
        self.optimizer.step()
        return True, norm, None


class ParamScheduler:
    """``OptimizerParamScheduler``: a closed form of the bounds that the groups hold."""

    def __init__(self, optimizer: MixedPrecision) -> None:
        self.optimizer, self.num_steps = optimizer, 0
        self.step(0)

    def step(self, increment: int) -> None:
        self.num_steps += increment
        for group in self.optimizer.param_groups:
            group["lr"] = group["min_lr"] + (1.0 - self.num_steps / 10) * (group["max_lr"] - group["min_lr"])

    def state_dict(self) -> dict[str, Any]:
        return {"num_steps": self.num_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_steps = state["num_steps"]


class Loop:
    def __init__(self, told: FakeWatch, is_scaled: bool = True, config: Any = None, **settings: Any) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 1)
        groups = [{"params": list(self.model.parameters()), "max_lr": 0.01, "min_lr": 0.0}]
        self.optimizer = MixedPrecision(torch.optim.AdamW(groups, lr=0.01), is_scaled)
        self.optimizer.config = config
        self.scheduler = ParamScheduler(self.optimizer)
        self.hooks = watch([self.model], self.optimizer, self.scheduler, run=make_run(told), **settings)

    def step(self, hurt: float = 1.0) -> None:
        inputs = torch.randn(4, 4)
        loss = (self.model(inputs) - inputs.sum(1, keepdim=True)).square().mean() * hurt
        self.hooks.add_loss(loss)
        (loss * self.optimizer.get_loss_scale()).backward()
        update_successful, _, _ = self.optimizer.step()
        if update_successful:
            self.scheduler.step(1)
        self.optimizer.zero_grad()


def test_a_skipped_step_counts_with_its_scale() -> None:
    told = FakeWatch()
    loop = Loop(told)
    for hurt in (1.0, math.nan, 1.0):
        loop.step(hurt)
    loop.hooks.run.finish()
    norms = told.values("train/grad_norm")
    assert [math.isfinite(norm) for norm in norms.values()] == [True, False, True]
    assert norms[1] > 0.1  # before the clipping
    assert told.values("optim/loss_scale") == {1: 1024.0, 2: 512.0, 3: 512.0}
    assert told.values("optim/lr") == pytest.approx({1: 0.01, 2: 0.009, 3: 0.009})
    assert told.not_applied() == [2]
    assert {batch.grad_norm_scope for batch in told.batches()} == {"global"}
    assert "step" not in vars(loop.optimizer)


def test_a_factor_on_the_learning_rate_outlives_the_scheduler() -> None:
    told = FakeWatch()
    loop = Loop(told, allow={"lr_factor"})
    loop.step()
    told.act([LrFactor(0.5)])
    control = loop.hooks.run.control
    assert control is not None
    await_(lambda: control.is_due(1), "the action")
    for _ in range(3):
        loop.step()
    loop.hooks.run.finish()
    assert told.values("optim/lr") == pytest.approx({1: 0.01, 2: 0.009, 3: 0.004, 4: 0.0035})


@pytest.mark.parametrize("is_scaled", [True, False])
def test_what_can_be_applied_is_reported(is_scaled: bool, tmp_path: Path) -> None:
    told = FakeWatch()
    loop = Loop(told, is_scaled, allow={"nan_guard", "lr_factor", "rollback"}, checkpoints=tmp_path)
    loop.hooks.run.finish()
    expected = {"lr_factor", "rollback", "skip_range", "checkpoint_now"}
    assert effects_at_the_start(told) == (expected | {"nan_guard"} if is_scaled else expected)


def test_what_cannot_be_gone_back_with_is_told_in_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = FakeWatch()
    offloaded = SimpleNamespace(optimizer_cpu_offload=True)
    loop = Loop(told, config=offloaded, allow={"rollback", "lr_factor"}, checkpoints=tmp_path)
    loop.hooks.run.finish()
    assert effects_at_the_start(told) == {"lr_factor", "nan_guard"}
    (line,) = [record.message for record in caplog.records if "rollback" in record.message]
    assert line == (
        "allowed but not possible here: rollback "
        "(with optimizer_cpu_offload Holter does not know how the state lies on the ranks)"
    )
    assert not list(tmp_path.iterdir())


def effects_at_the_start(told: FakeWatch) -> set[str]:
    (started,) = told.events(Started)
    assert isinstance(started.event, Started)
    return set(started.event.effects)


def test_what_cannot_be_watched_is_told_in_a_line() -> None:
    loop = Loop(FakeWatch())
    with pytest.raises(ValueError, match=r"^this optimizer is watched already: call watch once$"):
        watch(loop.model, loop.optimizer, project="tests")
    with pytest.raises(ValueError, match=r"^AdamW is no MegatronOptimizer: it has no get_loss_scale"):
        watch(loop.model, loop.optimizer.optimizer, project="tests")
    loop.hooks.run.finish()
