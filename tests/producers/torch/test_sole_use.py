"""An optimizer that two would act on, or whose step somebody else takes: one line, and the training goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from holter import producers
from holter.producers import Run
from holter.producers.torch import Guard, Hooks
from holter.producers.torch.sole_use import GUARDED, OUTSIDE

pytestmark = pytest.mark.torch
INPUTS = torch.ones(4, 3)


class WithoutForeach(torch.optim.Optimizer):
    """The least that an optimizer is."""

    def __init__(self, weights: Any) -> None:
        super().__init__(weights, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                weight.sub_(weight.grad, alpha=group["lr"])


class Wrapper:
    """Passes on what a loop calls, and names nothing."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Loop:
    def __init__(
        self,
        folder: Path,
        make: Callable[[Any], Any] = torch.optim.AdamW,
        wrap: Callable[[torch.nn.Module], torch.nn.Module] = lambda model: model,
    ) -> None:
        self._folder, self._num_runs = folder, 0
        self.model = wrap(torch.nn.Linear(3, 1))
        self.optimizer = make(self.model.parameters())

    def new_run(self) -> Run:
        self._num_runs += 1
        return producers.init("tests", f"run-{self._num_runs}", mode="disabled", environ={})

    def guard(self) -> Guard:
        return Guard(self.new_run(), self.model, self.optimizer, checkpoints=None)

    def hooks(self) -> Hooks:
        return Hooks(self.new_run(), self.model, self.optimizer, checkpoints=None)

    def loss(self) -> torch.Tensor:
        return self.model(INPUTS).square().mean()  # type: ignore[no-any-return]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("first", ["guard", "hooks"])
def test_a_second_guard_is_told_and_both_go_on(tmp_path: Path, first: str, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(tmp_path)
    one, guard = getattr(loop, first)(), loop.guard()
    for _ in range(3):
        guard.backward(loop.loss())
        guard.step()
        if isinstance(one, Guard):
            one.backward(loop.loss())
            one.step()
    assert (guard.last_step, one.last_step) == (3, 3)
    assert lines(caplog) == [GUARDED]


def test_hooks_are_not_put_on_a_guarded_optimizer(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    guard = loop.guard()
    with pytest.raises(ValueError, match=GUARDED):
        loop.hooks()
    guard._run.finish()
    assert loop.hooks().last_step == 0


def test_a_step_beside_the_guards_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(tmp_path)
    guard = loop.guard()
    for _ in range(3):
        guard.backward(loop.loss())
        loop.optimizer.step()
        guard.step()
    assert lines(caplog) == [OUTSIDE]


def test_a_guards_second_step_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(tmp_path)
    guard = loop.guard()
    for _ in range(3):
        guard.backward(loop.loss())
        guard.step()
        guard.step()
    assert guard.last_step == 6
    assert lines(caplog) == ["step() was called without a loss since the last one"]


def test_one_that_needs_a_closure_is_refused_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"LBFGS.step\(\) needs a closure: keep it in the loop and use Hooks"):
        Loop(tmp_path, torch.optim.LBFGS).guard()


@pytest.mark.parametrize("make", [WithoutForeach, lambda weights: Wrapper(torch.optim.SGD(weights, lr=0.1))])
def test_any_other_is_guarded_without_a_word(tmp_path: Path, make: Any, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(tmp_path, make)
    guard, before = loop.guard(), loop.loss().item()
    for _ in range(3):
        guard.backward(loop.loss())
        guard.step()
    assert (guard.last_step, loop.loss().item() < before) == (3, True)
    assert lines(caplog) == []


def test_a_loss_with_a_shape_ends_nothing(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    guard = loop.guard()
    guard.backward(loop.loss().reshape(1))
    guard.step()
    assert guard.last_step == 1
