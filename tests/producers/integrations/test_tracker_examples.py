"""The trackers' examples run with the real libraries; a burst of the learning rate is seen, and healed by the Guard."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.producers.integrations.recorded import Story, read_story

pytestmark = [pytest.mark.torch, pytest.mark.services, pytest.mark.frameworks]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLTER_MODE", "local")
    return tmp_path


def story(folder: Path) -> Story:
    return read_story(folder / "holter-runs" / "examples")


def test_wandb(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    from holter.producers.examples import wandb_loop

    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb_loop.main(["--fault", "lr-burst"])
    onsets = {signal.onset_step for signal in story(folder).signals}
    assert 201 in onsets  # W&B has no update norm: what step 200 broke is in the next loss


def test_tensorboard(folder: Path) -> None:
    pytest.importorskip("tensorboard")
    from holter.producers.examples import tensorboard_loop
    from holter.producers.integrations.event_files import EventFolder

    tensorboard_loop.main(["--fault", "lr-burst"])
    told = story(folder)
    assert 200 in {signal.onset_step for signal in told.signals}
    assert "rollback" in told.effects()
    drawn = {scalar.tag for scalar in EventFolder(folder / "holter-tensorboard").new_scalars()}
    assert {"loss", "holter/action/rollback", "holter/action/rollback/after"} <= drawn
    assert {f"holter/{signal.kind}" for signal in told.signals if signal.onset_step == 200} & drawn
