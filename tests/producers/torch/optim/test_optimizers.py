"""What holds for every optimizer."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
import torch

from holter.producers.torch.optim import OPTIMIZERS, Clippy, make
from holter.producers.torch.reflex import HostReflex, SelectingReflex
from tests.producers.torch.clip.gradients import HostReads
from tests.producers.torch.optim.tapes import NAMES, copied, give, made, parameters, same, train, values

pytestmark = pytest.mark.torch

every_optimizer = pytest.mark.parametrize("name", NAMES)


@every_optimizer
@pytest.mark.parametrize("at", [1, 5, 7])
def test_a_resumed_run_goes_on_bit_for_bit(name: str, at: int) -> None:
    weights = parameters()
    optimizer = made(name, weights)
    train(optimizer, weights, range(at))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    others = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    other = made(name, others)
    other.load_state_dict(torch.load(file, weights_only=True))
    train(optimizer, weights, range(at, 10))
    train(other, others, range(at, 10))
    assert same(values(optimizer, weights), values(other, others))


@every_optimizer
@pytest.mark.parametrize("reflex", [HostReflex, SelectingReflex])
def test_a_non_finite_gradient_changes_nothing(name: str, reflex: type[HostReflex] | type[SelectingReflex]) -> None:
    weights = parameters()
    optimizer, taking = made(name, weights), reflex()
    train(optimizer, weights, range(3))
    before = values(optimizer, weights)
    give(weights, 3)
    weights[0].grad[0, 0] = math.nan  # type: ignore[index]
    assert not taking.take(optimizer, torch.tensor(math.nan))
    after = values(optimizer, weights)
    if name == "skip_step":  # whose state is its own, and has counted it
        before, after = before[: len(after) - 7], after[: len(after) - 7]
    assert same(before, after)


@every_optimizer
def test_schedulers_and_a_second_group_work(name: str) -> None:
    weights = parameters()
    optimizer = made(name, weights[:1])
    optimizer.add_param_group({"params": weights[1:], "lr": 0.02})
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for step in range(6):
        give(weights, step)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    first, second = optimizer.param_groups
    assert second["lr"] == pytest.approx(2 * first["lr"])
    assert 0 < first["lr"] < 0.01
    assert all(weight.grad is None for weight in weights)
    train(optimizer, weights, range(6, 9))
    state = copied(optimizer)
    optimizer.load_state_dict(state)
    assert len(optimizer.param_groups) == 2


@every_optimizer
def test_a_closure_gives_the_loss(name: str) -> None:
    weights = parameters(((3, 3),))
    optimizer = made(name, weights)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = weights[0].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    losses = [float(optimizer.step(closure).detach()) for _ in range(3)]  # type: ignore[attr-defined]
    assert losses[0] == pytest.approx(float(parameters(((3, 3),))[0].detach().square().sum()))
    assert losses[2] < losses[0] or name.startswith("msign")


@every_optimizer
def test_a_parameter_without_a_gradient_stays(name: str) -> None:
    weights = parameters()
    optimizer = made(name, weights)
    train(optimizer, weights, range(2))
    before = weights[1].detach().clone()
    give(weights, 3)
    weights[1].grad = None
    optimizer.step()
    assert torch.equal(weights[1], before)
    train(optimizer, weights, range(3))
    assert not torch.equal(weights[1], before)


@every_optimizer
def test_the_gradients_are_left_as_they_are(name: str) -> None:
    weights = parameters()
    optimizer = made(name, weights)
    for step in range(8):
        give(weights, step, scale=50.0 if step == 7 else 1.0)
        before = [weight.grad.clone() for weight in weights if weight.grad is not None]
        optimizer.step()
        assert all(torch.equal(weight.grad, was) for weight, was in zip(weights, before, strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(NAMES.keys() - {"msign", "spam_sparse"}))
def test_nothing_is_read_on_the_host(name: str) -> None:
    """Meta tensors hold no values (and no random generator): code that reads one fails. An SVD waits, which is said;
    what is wrapped is a base that does not read either."""
    weights = parameters(device="meta")
    options: dict[str, Any] = {"interval": 3} if "spam" in name else {}
    options |= {"base": torch.optim.SGD} if name.startswith(("msign", "skip_step")) else {}
    options |= {"every": 2} if name.startswith("msign") else {}
    optimizer = made(name, weights, **options)
    with HostReads() as reads:
        for _ in range(4):
            for weight in weights:
                weight.grad = torch.empty_like(weight)
            optimizer.step()
    assert reads.found == []


@every_optimizer
def test_a_quadratic_is_minimised(name: str) -> None:
    options = {"window": 8, "max_score": 100.0} if name == "skip_step" else {}
    options |= {"every": 1000} if name.startswith("msign") else {}
    options |= {"interval": 40} if "spam" in name else {}
    options |= {"lr": 0.1} if name == "clippy_adagrad" else {}
    weights = [torch.nn.Parameter(torch.full((4, 4), 2.0))]
    optimizer = made(name, weights, **{"absolute": 0.1} if name.startswith("clippy") else {}, **options)
    for group in optimizer.param_groups:
        group["lr"] = max(group["lr"], 0.05)
    start = float(weights[0].detach().square().sum())
    for _ in range({"clippy_adagrad": 140, "spam": 100, "spam_sparse": 200}.get(name, 60)):
        weights[0].grad = 2 * weights[0].detach()
        optimizer.step()
    assert float(weights[0].detach().square().sum()) < 0.05 * start


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, "there are clippy"),
        ("spam", {"theta": 1}, "theta"),
        ("spam", {"counter": "both"}, "author or restarted"),
        ("spam", {"density": 0.0}, "density"),
        ("spam", {"grace": 1}, "grace"),
        ("spam", {"betas": (0.9, 1.0)}, "betas"),
        ("stable_spam", {"gammas": (0.7, 1.0)}, "gammas"),
        ("stable_spam", {"lr": -1.0}, "lr"),
        ("clippy", {"absolute": 0.0}, "absolute"),
        ("clippy_adagrad", {"initial_accumulator": 0.0}, "initial_accumulator"),
        ("msign", {"form": "qr"}, "svd or newton_schulz"),
        ("msign", {"every": 0}, "every"),
        ("skip_step", {"window": 1}, "window"),
    ],
)
def test_what_cannot_be_made_is_said(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(name, parameters(), **options)


def test_names_and_their_base() -> None:
    assert set(OPTIMIZERS) >= {"clippy", "spam", "stable_spam", "msign", "skip_step"}
    wrapped = make("msign", parameters(), base=torch.optim.SGD, every=3, lr=0.1, momentum=0.9)
    assert isinstance(wrapped.base, torch.optim.SGD)  # type: ignore[attr-defined]
    assert wrapped.param_groups[0]["momentum"] == 0.9
    assert isinstance(make("clippy", parameters()), Clippy)
    origins = {name: made(name, parameters()).origin for name in OPTIMIZERS}  # type: ignore[attr-defined]
    assert {name for name, origin in origins.items() if origin != "paper"} == {"skip_step"}
