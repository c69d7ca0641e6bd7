"""Every stabiliser trains, by the name that a user gives."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from holter.producers.examples import stabilised, task  # noqa: E402
from holter.producers.torch import clip, optim  # noqa: E402
from tests.producers.examples.test_examples import final_loss  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.services]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLTER_MODE", "disabled")


@pytest.fixture
def untrained(capsys: pytest.CaptureFixture[str]) -> float:
    task.say_final_loss(task.make_model())
    return final_loss(capsys.readouterr().out)


def test_it_knows_every_optimizer() -> None:
    assert list(stabilised.OPTIMIZERS) == list(optim.OPTIMIZERS)


NAMES = [*(("clip", name) for name in clip.CLIPPERS), *(("optimizer", name) for name in optim.OPTIMIZERS)]


@pytest.mark.parametrize(("option", "name"), NAMES)
def test_every_name_trains(option: str, name: str, untrained: float, capsys: pytest.CaptureFixture[str]) -> None:
    stabilised.main([f"--{option}", name, "--steps", "100"])
    printed = capsys.readouterr().out
    chosen = {"clip": "globalgc", "optimizer": "adamw", option: name}
    assert "100 steps with {clip} and {optimizer}".format(**chosen) in printed
    assert final_loss(printed) < 0.6 * untrained
