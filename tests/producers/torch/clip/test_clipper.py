"""What holds for every clipper."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import pytest
import torch

from holter.producers.torch.clip import CLIPPERS, Clipper, make
from tests.producers.torch.clip.gradients import HostReads, give, norms_of, parameters, run, tensors_of

pytestmark = pytest.mark.torch

OPTIONS: dict[str, dict[str, Any]] = {
    "globalgc": {"max_norm": 5.0},
    "agc": {"ratio": 0.9},
    "adagc": {"warmup_steps": 5, "max_norm": 5.0},
    "zclip": {"warmup_steps": 5, "max_norm": None},
    "ema_mad": {"min_samples": 5, "window": 8, "warmup_norm": None},
    "olmo": {"ratio": 1.5},
    "autoclip": {"percentile": 75.0, "window": 8},
}
QUIET = [1.0] * 12
every_clipper = pytest.mark.parametrize("name", CLIPPERS)


@functools.cache
def quiet_state(name: str) -> dict[str, Any]:
    clipper = make(name, **OPTIONS[name])
    run(clipper, parameters(), QUIET)
    return clipper.state_dict()


def prepared(name: str) -> tuple[Clipper, list[torch.nn.Parameter]]:
    """After twelve quiet steps."""
    clipper, weights = make(name, **OPTIONS[name]), parameters()
    clipper.load_state_dict(copy.deepcopy(quiet_state(name)))
    give(weights, len(QUIET) - 1)
    return clipper, weights


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors_of(one), tensors_of(other), strict=True))


@every_clipper
def test_a_spike_is_clipped_and_said(name: str) -> None:
    clipper, weights = prepared(name)
    give(weights, 99, scale=1000.0)
    before = [weight.grad.clone() for weight in weights if weight.grad is not None]
    report = clipper.clip(weights)
    assert bool(report.is_finite)
    assert bool(report.is_clipped)
    assert float(report.norm_before) == pytest.approx(math.hypot(*(float(each.norm()) for each in before)), rel=1e-6)
    assert float(report.norm_after) == pytest.approx(math.hypot(*norms_of(weights)), rel=1e-6)
    assert float(report.norm_after) < 0.1 * float(report.norm_before)
    if name != "agc":  # whose pieces are units: the direction within a tensor turns
        for weight, was in zip(weights, before, strict=True):
            assert weight.grad is not None
            assert float(torch.cosine_similarity(weight.grad.view(-1), was.view(-1), dim=0)) == pytest.approx(1.0)


@every_clipper
def test_without_an_exceedance_the_gradients_keep_their_bits(name: str) -> None:
    loose = {"globalgc": 1e9, "agc": 1e9, "adagc": 1e9, "zclip": 1e9, "ema_mad": 1e9, "olmo": 1e9, "autoclip": 100.0}
    option = {"globalgc": "max_norm", "zclip": "max_score", "ema_mad": "alpha", "autoclip": "percentile"}
    clipper = make(name, **{**OPTIONS[name], option.get(name, "ratio"): loose[name]})
    weights = parameters()
    for step, scale in enumerate([8.0] * 5 + [1.0] * 5):
        give(weights, step, scale if name == "autoclip" else 1.0)
        before = [weight.grad.clone() for weight in weights if weight.grad is not None]
        report = clipper.clip(weights)
        clipper.commit()
        if name in ("adagc", "autoclip") and step < 5:
            continue  # warm-up, and norms that are themselves the highest yet
        assert all(torch.equal(weight.grad, was) for weight, was in zip(weights, before, strict=True))  # type: ignore[arg-type]
        assert not report.is_clipped


@every_clipper
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("known", [True, False])
def test_a_non_finite_gradient_changes_nothing(name: str, bad: float, known: bool) -> None:
    clipper, weights = prepared(name)
    before = copy.deepcopy(clipper.state_dict())
    give(weights, 50)
    weights[0].grad.view(-1)[3] = bad  # type: ignore[union-attr]
    gradients = [weight.grad.clone() for weight in weights if weight.grad is not None]
    report = clipper.clip(weights)
    clipper.commit(True if known else torch.tensor(True))
    assert not report.is_finite
    assert not report.is_clipped
    assert same(before, clipper.state_dict())
    for weight, was in zip(weights, gradients, strict=True):
        torch.testing.assert_close(weight.grad, was, rtol=0, atol=0, equal_nan=True)


@every_clipper
@pytest.mark.parametrize("flag", [False, torch.tensor(False)])
def test_a_skipped_step_changes_no_state(name: str, flag: bool | torch.Tensor) -> None:
    clipper, weights = prepared(name)
    before = copy.deepcopy(clipper.state_dict())
    give(weights, 50, scale=3.0)
    clipper.clip(weights)
    clipper.commit(flag)
    assert same(before, clipper.state_dict())


@every_clipper
def test_a_device_flag_commits_as_a_known_one(name: str) -> None:
    (one, weights), (other, _) = prepared(name), prepared(name)
    for flag, clipper in ((True, one), (torch.tensor(True), other)):
        give(weights, 50, scale=3.0)
        clipper.clip(weights)
        clipper.commit(flag)
    assert same(one.state_dict(), other.state_dict())


@every_clipper
@pytest.mark.parametrize("at", [3, 9])
def test_a_resumed_run_goes_on_bit_for_bit(name: str, at: int) -> None:
    scales = [1.0, 3.0, 0.5, 1.0, 40.0, 1.0, 1.2, 0.9, 7.0, 1.0, 1.0, 30.0, 1.0, 2.0]
    whole, first, second = (make(name, **OPTIONS[name]) for _ in range(3))
    weights = parameters()
    whole.clip_adjust(0.5, ramp_steps=10)
    first.clip_adjust(0.5, ramp_steps=10)
    for step, scale in enumerate(scales):
        give(weights, step, scale)
        whole.clip(weights)
        whole.commit()
        expected = [weight.grad for weight in weights]
        if step == at:
            second.load_state_dict(copy.deepcopy(first.state_dict()))
            first = second
        give(weights, step, scale)
        first.clip(weights)
        first.commit()
        assert all(torch.equal(a, weight.grad) for a, weight in zip(expected, weights, strict=True))  # type: ignore[arg-type]
    assert same(whole.state_dict(), first.state_dict())


@every_clipper
def test_the_factor_tightens_what_is_applied_and_not_what_is_learnt(name: str) -> None:
    (plain, weights), (tight, others) = prepared(name), prepared(name)
    tight.clip_adjust(0.5)
    for step in range(20, 40):
        give(weights, step, scale=2.0)
        give(others, step, scale=2.0)
        usual, halved = plain.clip(weights), tight.clip(others)
        plain.commit()
        tight.commit()
        assert float(halved.threshold) == pytest.approx(0.5 * float(usual.threshold))
        assert float(halved.norm_after) < float(usual.norm_after)
    assert same(plain.state_dict()["state"], tight.state_dict()["state"])


@every_clipper
def test_the_factor_is_bounded_and_climbs_back(name: str) -> None:
    clipper, weights = prepared(name)
    for factor in (0.0, 0.09, 1.5, math.nan):
        with pytest.raises(ValueError, match="factor"):
            clipper.clip_adjust(factor)
    clipper.clip_adjust(0.2, ramp_steps=4)
    run(clipper, weights, [1.0] * 4)
    assert clipper.state_dict()["factor"][0] == 1.0


@every_clipper
def test_a_scaled_run_is_clipped_alike(name: str) -> None:
    """g → 64 g: what adapts has the same ratios, of fixed bounds the scaled ones."""
    options = {**OPTIONS[name]}
    options |= {key: 64 * options[key] for key in ("max_norm",) if options.get(key)}
    one, other = make(name, **OPTIONS[name]), make(name, **options)
    weights, larger = parameters(), parameters()
    with torch.no_grad():
        for weight in larger:
            weight.mul_(64.0)
    scales = [1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 5.0, 1.0, 1.3, 20.0, 1.0]
    for here, there in zip(
        run(one, weights, scales), run(other, larger, [64 * scale for scale in scales]), strict=True
    ):
        assert float(there.norm_after) == pytest.approx(64 * float(here.norm_after), rel=1e-4)
        assert int(there.num_clipped) == int(here.num_clipped)


@every_clipper
def test_nothing_is_read_on_the_host(name: str) -> None:
    """Meta tensors hold no values: code that reads one fails."""
    clipper, weights = make(name, **OPTIONS[name]), parameters(device="meta")
    with HostReads() as reads:
        for _ in range(2):
            for weight in weights:
                weight.grad = torch.empty_like(weight)
            report = clipper.clip(weights)
            clipper.commit(report.is_finite)
    assert reads.found == []
    assert report.norm_before.device.type == "meta"


@every_clipper
def test_nothing_is_dispatched_as_a_read_on_the_cpu(name: str) -> None:
    clipper, weights = prepared(name)
    give(weights, 3)
    with HostReads() as reads:
        clipper.commit(clipper.clip(weights).is_finite)
    assert reads.found == []


@every_clipper
def test_parameters_without_a_gradient_are_passed_over(name: str) -> None:
    clipper, weights = prepared(name)
    state = copy.deepcopy(clipper.state_dict()["state"])
    give(weights, 3, scale=100.0)
    weights[1].grad = None
    report = clipper.clip(weights)
    clipper.commit()
    assert float(report.norm_after) == pytest.approx(math.hypot(*norms_of(weights)), rel=1e-6)
    assert weights[1].grad is None
    for key, value in clipper.state_dict()["state"].items():
        if value.shape == (3,):  # one a parameter
            assert value[1] == state[key][1]
            assert value[0] != state[key][0]
    for weight in weights:
        weight.grad = None
    before = copy.deepcopy(clipper.state_dict())
    assert float(clipper.clip(weights).norm_before) == 0.0
    clipper.commit()
    assert same(before, clipper.state_dict())


@every_clipper
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_norms_are_float32_whatever_the_gradients_are(name: str, dtype: torch.dtype) -> None:
    clipper = make(name, **OPTIONS[name])
    weight = torch.nn.Parameter(torch.ones(4, 300, dtype=dtype))
    weight.grad = torch.full((4, 300), 100.0, dtype=dtype)
    report = clipper.clip([weight])
    assert report.norm_before.dtype == torch.float32
    assert float(report.norm_before) == pytest.approx(100.0 * 1200**0.5, rel=1e-6)
    assert weight.grad.dtype == dtype


@pytest.mark.parametrize("name", ["globalgc", "agc"])
def test_clipping_twice_is_clipping_once(name: str) -> None:
    clipper, weights = make(name, **OPTIONS[name]), parameters()
    give(weights, 0, scale=30.0)
    clipper.clip(weights)
    once = [weight.grad.clone() for weight in weights if weight.grad is not None]
    clipper.clip(weights)
    for weight, was in zip(weights, once, strict=True):
        torch.testing.assert_close(weight.grad, was, rtol=1e-5, atol=0)


def test_one_rule_is_nobodys_paper() -> None:
    assert [name for name, kind in CLIPPERS.items() if kind.origin != "paper"] == ["ema_mad"]


def test_a_state_of_another_clipper_is_refused() -> None:
    with pytest.raises(ValueError, match="'zclip', not of 'adagc'"):
        make("adagc").load_state_dict(make("zclip").state_dict())


def test_a_state_of_other_parameters_is_refused() -> None:
    trained, _ = prepared("adagc")
    clipper, weights = make("adagc"), parameters(((3,), (4,)))
    clipper.load_state_dict(trained.state_dict())
    give(weights, 0)
    with pytest.raises(ValueError, match="of other parameters"):
        clipper.clip(weights)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, "there are globalgc, agc"),
        ("zclip", {"sigma": 3}, "sigma"),
        ("zclip", {"mode": "median"}, "reciprocal, max, mean"),
        ("globalgc", {"max_norm": 0.0}, "above 0"),
        ("agc", {"ratio": -1.0}, "ratio"),
        ("adagc", {"beta": 1.0}, "beta"),
        ("ema_mad", {"min_samples": 200}, "min_samples"),
        ("ema_mad", {"feed": "both"}, "clipped or raw"),
        ("olmo", {"betas": (0.9, 1.0)}, "betas"),
        ("autoclip", {"percentile": 101}, "percentile"),
    ],
)
def test_what_cannot_be_made_is_said(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(name, **options)
