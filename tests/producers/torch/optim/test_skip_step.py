"""Skip-step: the window and thresholds of OLMo-core's, with what is done otherwise."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from holter.producers.torch.optim import SkipStep, make, outliers
from holter.producers.torch.reflex import HostReflex, SelectingReflex
from tests.producers.torch.clip.gradients import give_norms
from tests.producers.torch.optim.tapes import parameters, same

pytestmark = pytest.mark.torch


class Loop:
    """A model of one number that is given a loss and a gradient norm at every step."""

    def __init__(self, selecting: bool = False, **options: Any) -> None:
        self.weights = parameters(((2,),))
        optimizer = make("skip_step", self.weights, lr=0.01, **options)
        assert isinstance(optimizer, SkipStep)
        self.optimizer = optimizer
        if selecting:
            optimizer._reflex = SelectingReflex()
        self._num_steps = 0

    def step(self, loss: float, norm: float = 1.0) -> bool:
        before = self.weights[0].detach().clone()
        self._num_steps += 1
        give_norms(self.weights, [norm + 0.01 * (self._num_steps % 3)])
        self.optimizer.observe(loss=torch.tensor(loss))
        self.optimizer.step()
        moved = not torch.equal(before, self.weights[0])
        assert bool(self.optimizer.applied) == moved
        return moved

    def calm(self, number: int, level: float = 2.0) -> bool:
        taken = [self.step(level + 0.01 * math.sin(7 * at)) for at in range(number)]
        return all(taken)


def test_it_takes_half_a_window_and_at_least_twenty_values() -> None:
    assert [outliers.min_samples(window) for window in (128, 64, 30)] == [64, 32, 20]
    early, late = Loop(), Loop()
    early.calm(63)
    late.calm(64)
    assert early.step(100.0)
    assert not late.step(100.0)


@pytest.mark.parametrize("selecting", [False, True])
@pytest.mark.parametrize(("loss", "norm"), [(9.0, 1.0), (-5.0, 1.0), (2.0, 50.0), (2.0, 0.0)])
def test_an_outlier_of_either_value_on_either_side_is_left_out(selecting: bool, loss: float, norm: float) -> None:
    loop = Loop(selecting, window=24)
    assert loop.calm(26)
    moments = loop.optimizer.state[loop.weights[0]]["exp_avg"].clone()
    assert not loop.step(loss, norm)
    assert torch.equal(loop.optimizer.state[loop.weights[0]]["exp_avg"], moments)
    assert int(loop.optimizer.num_skipped) == 1
    assert loop.step(2.0)


def test_what_was_left_out_does_not_hide_the_next() -> None:
    loop = Loop(window=24)
    loop.calm(26)
    assert [loop.step(9.0) for _ in range(10)] == [False] * 10


def test_a_lasting_change_is_taken_in_the_end() -> None:
    loop = Loop(window=24, max_in_a_row=5)
    loop.calm(26)
    assert [loop.step(9.0) for _ in range(5)] == [False, False, False, False, True]
    assert loop.calm(26, level=9.0)
    assert not loop.step(2.0)


@pytest.mark.parametrize("selecting", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_values_stand_apart(selecting: bool, bad: float) -> None:
    loop = Loop(selecting, window=24, max_in_a_row=3)
    loop.calm(26)
    state = {name: value.clone() for name, value in loop.optimizer.state_dict()["skip_step"].items()}
    before = [each.detach().clone() for each in loop.weights]
    assert [loop.step(2.0, bad) for _ in range(6)] == [False] * 6
    assert [loop.step(bad) for _ in range(6)] == [False] * 6
    after = loop.optimizer.state_dict()["skip_step"]
    assert all(torch.equal(state[name], after[name]) for name in state if name != "num_nonfinite")
    assert [int(loop.optimizer.num_skipped), int(loop.optimizer.num_nonfinite)] == [0, 12]
    assert same(before, loop.weights)
    assert loop.step(2.0)


def test_the_measured_norm_does_not_replace_an_observed_one() -> None:
    loop = Loop(window=24)
    loop.calm(26)
    loop.optimizer.observe(norm=torch.tensor(100.0))
    assert not loop.step(2.0, norm=1.0)


def test_a_resumed_run_decides_alike() -> None:
    loop, other = Loop(window=24), Loop(window=24)
    loop.calm(25)
    loop.step(9.0)
    other.optimizer.load_state_dict(loop.optimizer.state_dict())
    assert not other.step(9.0)
    assert int(other.optimizer.num_skipped) == 2
    with pytest.raises(ValueError, match="another window"):
        Loop(window=64).optimizer.load_state_dict(loop.optimizer.state_dict())


def test_the_way_to_skip_is_the_reflexes() -> None:
    assert isinstance(Loop().optimizer._reflex, HostReflex)
