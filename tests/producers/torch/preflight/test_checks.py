"""A job with one defect has that finding, and a job with none has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from holter.producers.torch.preflight import Finding, Report, Subject, examine
from tests.producers.torch.preflight.gpts import Shape, job

pytestmark = pytest.mark.torch


def troubles(subject: Subject) -> dict[str, str]:
    return {finding.check: finding.severity for finding in examine(subject).troubles}


def only(report: Report) -> Finding:
    (finding,) = report.troubles
    return finding


def adam(subject: Subject, **options: Any) -> Subject:
    """The same weights under another optimizer, decayed as before, with no scheduler."""
    assert subject.optimizer is not None
    groups = [{key: group[key] for key in ("params", "weight_decay")} for group in subject.optimizer.param_groups]
    options = {"lr": 1e-3, "betas": (0.9, 0.95), **options}
    return replace(subject, optimizer=torch.optim.AdamW(groups, **options), scheduler=None)


def test_a_clean_job_has_no_finding() -> None:
    report = examine(job())
    assert not report.troubles
    assert report.num_serious == 0
    assert {each.check for each in report.findings if each.severity == "not_checked"} == {"seeds of the ranks"}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Shape(num_layers=2, scaled_embedding=False), {"embedding scale": "warning"}),
        (Shape(scaled_outputs=False), {"sub-layer scale": "warning"}),
        (Shape(num_layers=2, qk_norm=False), {"QK-norm": "note"}),
        (Shape(num_layers=2, z_loss=0.0), {"z-loss": "note"}),
        (Shape(num_layers=2, qk_norm=False, query_scale=20.0), {"QK-norm": "note", "attention logits": "warning"}),
        (Shape(head_scale=20.0), {"first loss": "warning", "clip threshold": "warning"}),
    ],
)
def test_a_defect_of_the_model_is_found(shape: Shape, expected: dict[str, str]) -> None:
    assert troubles(job(shape)) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"clip": 0.0}, {"clip threshold": "warning"}),
        ({"clip": 1000.0}, {"clip threshold": "warning"}),
        ({"clip": 0.001}, {"clip threshold": "warning"}),
        ({"scaler": torch.amp.GradScaler("cpu")}, {"loss scale": "note"}),
        ({"precision": torch.float16}, {"loss scale": "serious"}),
    ],
)
def test_a_defect_of_a_setting_is_found(changed: dict[str, Any], expected: dict[str, str]) -> None:
    assert troubles(job(**changed)) == expected


def test_no_warm_up_is_serious_and_a_short_one_a_warning() -> None:
    assert troubles(replace(adam(job()), warmup=0)) == {"warm-up": "serious"}
    assert not troubles(adam(job()))  # with neither scheduler nor warmup= it cannot tell
    short = adam(job(steps=2000), betas=(0.9, 0.999))
    assert short.optimizer is not None
    scheduler = torch.optim.lr_scheduler.LambdaLR(short.optimizer, lambda step: min(1.0, (step + 1) / 50))
    finding = only(examine(replace(short, scheduler=scheduler)))
    assert (finding.check, finding.severity, finding.value, finding.limit) == ("warm-up", "warning", 49, 200)


def test_a_low_rate_needs_no_warm_up() -> None:
    assert not troubles(replace(adam(job(), lr=1e-5), warmup=0))


def test_decayed_embeddings_and_norms_are_named() -> None:
    subject = job()
    optimizer = torch.optim.AdamW(subject.model.parameters(), lr=1e-5, weight_decay=0.1)
    report = examine(replace(subject, optimizer=optimizer, scheduler=None))
    by_check = {finding.check: finding for finding in report.troubles}
    assert by_check.keys() == {"weight decay on embeddings", "weight decay on norms and biases"}
    assert "wte.weight is decayed by 0.1" in by_check["weight decay on embeddings"].what


def test_sixteen_bit_weights_that_stand_still_are_serious() -> None:
    subject = job(Shape(num_layers=2, z_loss=1e-3), batch=None, clip=None)
    subject = adam(replace(subject, model=subject.model.bfloat16()), lr=1e-5)
    finding = only(examine(subject))
    assert (finding.check, finding.severity) == ("weight type", "serious")
    assert finding.value is not None
    assert finding.value > 0.9


def test_an_epsilon_above_the_gradients_is_found() -> None:
    assert troubles(adam(job(), lr=1e-5, eps=1e-2)) == {"Adam's epsilon": "warning"}


def test_a_first_loss_that_is_not_finite_is_serious() -> None:
    subject = job(loss=lambda model, batch: model(*batch)[1] * float("nan"))
    assert troubles(subject) == {"first loss": "serious", "clip threshold": "serious"}


def test_what_cannot_be_told_is_said_so() -> None:
    report = examine(Subject(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))))
    assert not report.troubles
    reasons = {each.check: each.what for each in report.findings if each.severity == "not_checked"}
    assert reasons["embedding scale"] == "no token embedding was found"
    assert reasons["warm-up"] == "no optimizer of the Adam family was given"
    assert reasons["output logits"] == "no batch was given"


def test_nothing_is_changed() -> None:
    subject = job(Shape(num_layers=2, dropout=0.1))
    before = [each.detach().clone() for each in subject.model.parameters()]
    rates, state = subject.scheduler.state_dict()["last_epoch"], torch.get_rng_state()
    examine(subject)
    assert all(torch.equal(a, b) for a, b in zip(before, subject.model.parameters(), strict=True))
    assert all(each.grad is None for each in subject.model.parameters())
    assert subject.model.training
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in subject.model.modules())
    assert subject.scheduler.state_dict()["last_epoch"] == rates
    assert torch.equal(torch.get_rng_state(), state)
