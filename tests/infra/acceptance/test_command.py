"""``make acceptance``: a table for people, one JSON object on the last line for programs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from msgspec.structs import replace

from holter.infra.acceptance import __main__ as command
from holter.infra.rescue.results import Results
from tests.infra.rescue.results import CURVE, result

pytestmark = pytest.mark.torch

UNHURT = replace(result("healthy", "shadow", 2.0), num_incidents=0, first_signal=None)
ARMS = [
    UNHURT,
    result("healthy", "expected-cost", 2.0),
    result("bit-flip", "shadow", None),
    result("bit-flip", "expected-cost", 2.01, is_treated=True),
]
TARGETS = {
    "detection_latency_seconds": 1.0,
    "detection_accuracy": 90.0,
    "false_alarm_rate": 5.0,
    "recovery_success": 80.0,
    "compute_overhead": 1.0,
    "rpo_steps": 99.0,
}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix is there already."""
    monkeypatch.setattr(command, "run_with_progress", lambda *_: ARMS)
    monkeypatch.setattr(Results, "curve", lambda *_: CURVE)


def told(*options: str) -> tuple[int, str, list[dict[str, Any]]]:
    said = CliRunner().invoke(command.app, ["--json", *options])
    return said.exit_code, said.stderr, json.loads(said.stdout.splitlines()[-1])["figures"]


@pytest.mark.usefixtures("ran")
def test_all_six_are_told_and_what_was_not_measured_is_not_met() -> None:
    code, table, figures = told("--no-stack")
    assert code == 1
    assert {figure["name"]: figure["target"] for figure in figures} == TARGETS
    assert [figure["name"] for figure in figures if figure["value"] is None] == [
        "detection_latency_seconds",
        "compute_overhead",
    ]
    assert all(figure["met"] is (figure["value"] is not None) for figure in figures)
    assert all(name in table for name in TARGETS)
    assert "it needs the stack" in table


@pytest.mark.usefixtures("ran")
def test_it_ends_well_only_where_all_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    met = [dataclasses.replace(figure, value=0.5) for figure in command.unmeasured()]
    monkeypatch.setattr(command, "from_stack", lambda scale, console: met)
    code, _, figures = told()
    assert (code, all(figure["met"] for figure in figures)) == (0, True)
