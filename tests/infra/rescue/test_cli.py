"""Wrong usage ends with 2 and says what is known."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from holter.infra.acceptance.__main__ import app as acceptance
from holter.infra.rescue.__main__ import app as rescue

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("app", [rescue, acceptance], ids=["rescue", "acceptance"])
def test_it_has_help_with_an_example(app: object) -> None:
    answer = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})  # type: ignore[arg-type]
    assert answer.exit_code == 0
    assert "Example: make " in answer.stdout


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [("--faults", "flood", "bit-flip"), ("--policies", "bold", "cautious"), ("--seeds", "one", "0, 1, 2")],
)
def test_what_is_not_known_is_named_with_what_is(option: str, value: str, known: str) -> None:
    answer = CliRunner().invoke(rescue, [option, value], env={"COLUMNS": "200"})
    assert answer.exit_code == 2
    assert value in answer.output
    assert known in answer.output


def test_without_a_stack_it_says_how_to_start_one(tmp_path: object) -> None:
    environ = {"COLUMNS": "200", "HOLTER_HOME": str(tmp_path)}
    answer = CliRunner().invoke(rescue, ["--real-stack"], env=environ)
    assert answer.exit_code == 1
    assert "holter up" in answer.output
