"""What a tracker is shown, and by which names it is heard."""

from __future__ import annotations

import pytest

from holter.pipeline.replay.columns import ColumnNames
from holter.producers.handover import Response
from holter.producers.integrations import tracked_names
from holter.producers.integrations.findings import AlertFilter, answer_finding, signal_finding
from holter.producers.integrations.tracked_names import TrackedNames
from holter.schemas.telemetry import EffectReport
from tests.producers.integrations.signals import a_signal


@pytest.mark.parametrize(("name", "metric"), tracked_names._BY_NAME.items())
def test_known_names_are_those_of_replay(name: str, metric: str) -> None:
    assert ColumnNames().role(name) == metric


def test_numbers_are_taken_and_nothing_else() -> None:
    row = {"loss": 2, "train": {"Grad Norm": 0.5}, "note": "text", "image": object(), "holter/nan": 1.0, "acc": True}
    assert TrackedNames().numbers(row) == {"train/grad_norm": 0.5, "train/loss": 2, "acc": True}


def test_a_name_that_was_given_comes_first() -> None:
    names = TrackedNames({"ce": "train/loss"})
    assert names.numbers({"loss": 2.0, "ce": 1.0}) == {"loss": 2.0, "train/loss": 1.0}


def test_an_incident_is_drawn_by_its_severity_and_ends_at_zero() -> None:
    opened = signal_finding(a_signal(severity="critical"))
    closed = signal_finding(a_signal(severity="critical", phase="close", step=40, p_recover=None))
    assert opened.values == {"holter/loss_spike": 3.0, "holter/loss_spike/p_recover": 0.25}
    assert (opened.step, opened.title, opened.text) == (12, "Holter: loss_spike began at step 10", "the loss jumped")
    assert closed.values == {"holter/loss_spike": 0.0}
    assert (closed.severity, closed.title) == ("info", "Holter: loss_spike is over at step 40")


def test_an_action_is_drawn_with_its_value_a_refusal_by_its_status() -> None:
    effects = (EffectReport("lr_factor", 1.0, 0.5), EffectReport("momentum_reset"))
    applied = answer_finding(Response("a", 1, 1, "applied", 7, effects=effects))
    assert applied.values == {
        "holter/action/lr_factor": 1.0, "holter/action/lr_factor/after": 0.5, "holter/action/momentum_reset": 1.0,
    }  # fmt: skip
    assert applied.title == "Holter: lr_factor, momentum_reset applied at step 7"
    assert answer_finding(Response("a", 1, 1, "refused", reason="on hold")).values == {"holter/action/refused": 1.0}


def test_an_incident_is_alerted_once_and_again_when_it_gets_worse() -> None:
    alerts = AlertFilter("warning")
    said = [
        a_signal(),
        a_signal(phase="update"),
        a_signal(severity="critical", phase="update"),
        a_signal(phase="close"),
    ]
    assert [alerts.passes(signal_finding(signal)) for signal in said] == [True, False, True, False]
