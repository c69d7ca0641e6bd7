"""Exploding gradients: judged as the detectors judge them, left out within a budget, and said."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from holter.producers.torch import SkipExplosions
from holter.producers.torch.explosion_reflex import DeviceExplosions, ExplosionReflex, HostExplosions
from holter.producers.torch.explosions import ExplosionJudge, is_above
from holter.producers.torch.reflex import SelectingReflex
from holter.schemas.control import Rollback
from holter.schemas.telemetry import BadGradient
from tests.producers.torch.loops import Training, make_loader
from tests.producers.torch.several_ranks import RankedTraining
from tests.producers.torch.test_guard import Counting, moments
from tests.producers.torch.test_rollback import checkpoint_at, latch
from tests.producers.watch import FakeWatch

pytestmark = pytest.mark.torch


def noise(number: int, sigma: float = 0.2, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [math.exp(draw.gauss(0.0, sigma)) for _ in range(number)]


def judged(judge: ExplosionJudge, norms: Iterable[float], start: int = 0) -> list[int]:
    return [step for step, norm in enumerate(norms, start) if judge.judge(step, norm) is not None]


@pytest.mark.parametrize("sigma", [0.02, 0.2, 0.6])
def test_single_explosions_are_found_and_nothing_else(sigma: float) -> None:
    norms = noise(1000, sigma)
    for step in (300, 301, 900):
        norms[step] *= 300.0
    assert judged(ExplosionJudge(SkipExplosions()), norms) == [300, 301, 900]


def test_a_level_that_creeps_up_is_no_bad_gradient() -> None:
    norms = [norm * 1.01**step for step, norm in enumerate(noise(1200))]
    assert judged(ExplosionJudge(SkipExplosions()), norms) == []


def test_before_anything_is_known_nothing_is_left_out() -> None:
    judge = ExplosionJudge(SkipExplosions())
    assert judge.single_limit() == math.inf
    assert judged(judge, [1.0, 1e6, 1.0]) == []


@pytest.mark.parametrize("seed", range(4))
def test_the_limit_says_what_the_test_of_a_single_norm_would(seed: int) -> None:
    judge, draw = ExplosionJudge(SkipExplosions()), random.Random(seed)
    for step, norm in enumerate(noise(600, 0.3, seed)):
        if draw.random() < 0.01:
            norm *= 10.0 ** draw.uniform(0.0, 3.0)
        limit = judge.single_limit()
        found = judge.judge(step, norm)
        if is_above(norm, limit):
            assert found is not None
        elif found is not None:  # one of several that came together
            assert len([seen for seen in judge._explosion.seen.kept if seen[1] > step - 8]) > 1


def test_the_judge_goes_on_from_its_state_bit_for_bit() -> None:
    norms = noise(700)
    norms[350] *= 100.0
    whole, first = (ExplosionJudge(SkipExplosions()) for _ in range(2))
    judged(first, norms[:351])
    first.note_skip(350)
    second = ExplosionJudge(SkipExplosions())
    second.load(first.state())
    assert judged(second, norms[351:], 351) == [step for step in judged(whole, norms) if step > 350]
    whole.note_skip(350)
    assert second.state() == whole.state()


def test_the_budget_is_of_the_last_steps() -> None:
    judge = ExplosionJudge(SkipExplosions(max_skips=2, within_steps=10))
    judge.note_skip(5)
    assert judge.may_skip(6)
    judge.note_skip(6)
    assert not judge.may_skip(14)
    assert judge.may_skip(15)


@pytest.mark.parametrize("settings", [{"max_skips": 0}, {"max_skips": 5, "within_steps": 4}])
def test_a_budget_that_cannot_be_used_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_skips"):
        SkipExplosions(**settings)


class Exploding(Training):
    """Multiplies the gradients of some steps."""

    def __init__(self, folder: Path, watch: FakeWatch | None = None, **settings: Any) -> None:
        settings = {"reflex": SkipExplosions(), "loader": make_loader(200), "until": 500, **settings}
        super().__init__(folder, watch, checkpoint_every=20, **settings)
        self.scale = 1.0
        for weight in self.model.parameters():
            weight.register_hook(lambda gradient: gradient * self.scale)

    def explode(self, number: int = 1, scale: float = 1e4) -> None:
        self.scale = scale
        self.steps(number)
        self.scale = 1.0


def bad_gradients(watch: FakeWatch) -> list[tuple[int, BadGradient]]:
    return [(each.step, each.event) for each in watch.events(BadGradient)]  # type: ignore[misc]


def delayed(training: Training | RankedTraining) -> None:
    """Decides as on a device."""
    explosions = DeviceExplosions(SkipExplosions())
    training.guard._reflex, training.guard._explosions = SelectingReflex(), explosions
    training.guard._measures._reports._explosions = explosions


@pytest.mark.parametrize("on_device", [False, True])
def test_an_explosion_reaches_neither_weights_nor_moments(tmp_path: Path, on_device: bool) -> None:
    watch = FakeWatch()
    training = Exploding(tmp_path, watch)
    if on_device:
        delayed(training)
    training.steps(24)
    before, state = training.weights(), moments(training)
    training.explode()
    assert all(torch.equal(one, other) for one, other in zip(training.weights(), before, strict=True))
    kept = [value for value in moments(training) if value.ndim]
    assert all(torch.equal(one, other) for one, other in zip(kept, [each for each in state if each.ndim], strict=True))
    training.steps(20)
    training.run.finish()
    assert training.guard.num_skipped == 1
    ((step, bad),) = bad_gradients(watch)
    assert (step, bad.kind, bad.num_in_a_row, bad.was_taken) == (25, "grad_explosion", 1, False)
    assert bad.score == pytest.approx(bad.value / bad.baseline)
    assert bad.score > bad.threshold >= 1.0
    assert watch.values("train/update_norm")[25] == 0.0
    assert watch.values("train/grad_norm")[25] == pytest.approx(bad.value)


def test_without_leave_an_explosion_is_the_users_own(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Exploding(tmp_path, watch, reflex=None)
    training.steps(24)
    training.explode()
    training.run.finish()
    assert (training.guard.num_skipped, bad_gradients(watch)) == (0, [])


@pytest.mark.parametrize("on_device", [False, True])
def test_what_lasts_is_taken_and_said(tmp_path: Path, on_device: bool, caplog: pytest.LogCaptureFixture) -> None:
    watch = FakeWatch()
    training = Exploding(tmp_path, watch)
    if on_device:
        delayed(training)
    training.steps(24)
    training.explode(12)
    training.run.finish()
    assert training.guard.num_skipped == 5
    told = [(bad.num_in_a_row, bad.was_taken) for _, bad in bad_gradients(watch)]
    assert told == [(1, False), (2, False), (4, False), (1, True), (2, True), (4, True)]
    assert len([line for line in caplog.messages if "too many were left out" in line]) == 1


def test_a_run_that_stays_broken_does_not_fill_the_bus(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Exploding(tmp_path, watch, reflex=None)
    training.explode(20, math.nan)
    training.run.finish()
    assert [(step, bad.kind, bad.num_in_a_row) for step, bad in bad_gradients(watch)] == [
        (1, "nan", 1), (2, "nan", 2), (4, "nan", 4), (8, "nan", 8), (16, "nan", 16)
    ]  # fmt: skip


def test_with_a_scaler_the_scale_has_no_part_in_it(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Exploding(tmp_path, watch, scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))
    training.steps(24)
    before = training.weights()
    training.explode()
    assert all(torch.equal(one, other) for one, other in zip(training.weights(), before, strict=True))
    training.explode(1, math.inf)
    training.steps(2)
    training.run.finish()
    scales = watch.values("optim/loss_scale")
    assert [scales[step] for step in (25, 26, 27)] == [1024.0, 1024.0, 512.0]
    assert training.guard.num_skipped == 2
    assert [bad.kind for _, bad in bad_gradients(watch)] == ["grad_explosion"]  # an overflow is a scaler's daily work


def test_a_scaler_that_is_switched_off_does_not_switch_off_the_reflex(tmp_path: Path) -> None:
    training = Exploding(tmp_path, scaler=torch.amp.GradScaler("cpu", enabled=False))
    training.explode(1, math.nan)
    assert all(weight.isfinite().all() for weight in training.weights())


def test_a_clipper_learns_nothing_from_what_was_left_out(tmp_path: Path) -> None:
    training = Exploding(tmp_path, clip=1.0)
    training.steps(24)
    before = training.weights()
    training.explode()
    assert all(torch.equal(one, other) for one, other in zip(training.weights(), before, strict=True))


def test_going_back_takes_the_judge_back(tmp_path: Path) -> None:
    watch = FakeWatch()
    training = Exploding(tmp_path, watch)
    training.steps(40)
    state = training.guard._explosions.state()  # type: ignore[union-attr]
    training.explode()
    training.steps(2)
    watch.act([Rollback(checkpoint_at(watch, 40), 40)])
    latch(training)
    training.steps(1)
    assert training.guard.last_step == 40
    assert training.guard._explosions.state() == state  # type: ignore[union-attr]
    training.run.finish()


def test_it_adds_no_synchronisation(tmp_path: Path) -> None:
    training = Exploding(tmp_path, FakeWatch(), optimizer=torch.optim.SGD, scheduled=False)
    training.steps(24)
    inputs, targets = next(training._batches)
    training.guard.backward(torch.nn.functional.mse_loss(training.model(inputs), targets))
    with Counting() as counting:
        training.guard.step()
    training.run.finish()
    assert counting.counts["aten._local_scalar_dense.default"] == 0


def test_it_needs_the_reflex_for_what_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nan_guard"):
        Exploding(tmp_path, allow=())


def run_reflex(explosions: ExplosionReflex, norms: list[float], lag: int) -> list[int]:
    """Which steps are left out, where norms arrive ``lag`` steps late."""
    left_out: list[int] = []
    waiting: list[tuple[int, float, bool]] = []
    for step, norm in enumerate(norms, 1):
        admitted = explosions.admitted(step, torch.tensor(norm, dtype=torch.float64))
        taken = bool(torch.isfinite(admitted))
        left_out += [] if taken else [step]
        waiting.append((step, norm, taken))
        if len(waiting) > lag:
            explosions.arrived(*waiting.pop(0))
        explosions.hear(explosions.unread)
    return left_out


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_on_a_device_the_same_steps_are_left_out(lag: int) -> None:
    norms = noise(450)
    for step in (199, 300, 420):
        norms[step] *= 1000.0
    settings = SkipExplosions()
    assert run_reflex(DeviceExplosions(settings), norms, lag) == [200, 301, 421]
    assert run_reflex(HostExplosions(settings), norms, 0) == [200, 301, 421]


def test_ranks_whose_norms_arrive_at_different_times_have_the_same_limits() -> None:
    draw, norms = random.Random(3), noise(300)
    ranks = [DeviceExplosions(SkipExplosions()) for _ in range(3)]
    waiting: list[list[tuple[int, float, bool]]] = [[] for _ in ranks]
    said = [0]
    for step, norm in enumerate(norms, 1):
        for explosions, late in zip(ranks, waiting, strict=True):
            explosions.admitted(step, torch.tensor(norm))
            late.append((step, norm, True))
            while late and draw.random() < 0.6:
                explosions.arrived(*late.pop(0))
        for explosions in ranks:
            explosions.hear(said[-1])
        said.append(max(explosions.unread for explosions in ranks))
        assert len({explosions._limit for explosions in ranks}) == 1
    assert ranks[0]._limit < math.inf


def test_where_nothing_is_agreed_nothing_is_left_out() -> None:
    explosions = DeviceExplosions(SkipExplosions())
    run_reflex(explosions, noise(100), 1)
    assert explosions._limit < math.inf
    explosions.hear(0)
    norm = torch.tensor(1e9)
    assert explosions.admitted(101, norm) is norm
