"""Each library's hello-world wears Holter by three lines at most; a burst of the learning rate is seen and healed."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.producers.integrations.recorded import read_story  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.services, pytest.mark.frameworks, pytest.mark.timeout(480)]

HURT_FROM = 200
SETTINGS = 'allow={"nan_guard", "lr_factor", "rollback", "skip_range"}, checkpoints="checkpoints"'
LINES = {
    "huggingface": {
        "from transformers import": "from holter.producers.integrations.huggingface import watch",
        "trainer = Trainer(": f'watch(trainer, "hello", {SETTINGS})',
    },
    "lightning": {
        "from lightning.pytorch import": "from holter.producers.integrations.lightning import HolterCallback",
        ")  # fmt: skip": f'trainer.callbacks.append(HolterCallback("hello", {SETTINGS}))',
    },
    "accelerate": {
        "from accelerate import": "from holter.producers.integrations.accelerate import watch",
        "model, optimizer, loader, sch": f'watch(accelerator, model, optimizer, scheduler, "hello", {SETTINGS})',
    },
}
"""What a newcomer adds, by the beginning of the line that it comes after."""


@pytest.mark.parametrize("library", LINES)
def test_a_burst_is_seen_at_its_step_and_healed(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers" if library == "huggingface" else library)
    monkeypatch.setenv("HOLTER_MODE", "local")
    monkeypatch.chdir(tmp_path)
    plain = Path(__file__).parent / "hello" / f"{library}.py"
    worn = tmp_path / "worn.py"
    worn.write_text(with_lines(plain.read_text(), LINES[library]))
    losses = []
    for script, fault in ((plain, ()), (plain, ("--fault", "lr-burst")), (worn, ("--fault", "lr-burst"))):
        losses.append(final_loss(script, fault, monkeypatch, capsys))
    unhurt, untreated, treated = losses
    story = read_story(tmp_path / "holter-runs" / "hello")

    assert {"nan_guard", "lr_factor", "momentum_reset", "rollback", "skip_range"} <= set(story.started().effects)
    assert HURT_FROM in {signal.onset_step for signal in story.signals}
    assert "rollback" in story.effects()
    assert untreated > 2 * unhurt
    assert (untreated - treated) / (untreated - unhurt) >= 0.8


def with_lines(text: str, lines: dict[str, str]) -> str:
    assert len(lines) <= 3
    for after, line in lines.items():
        (place,) = (each for each in text.splitlines() if each.startswith(after))
        text = text.replace(place, f"{place}\n{line}", 1)
    return text


def final_loss(
    script: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> float:
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    capsys.readouterr()
    runpy.run_path(str(script), run_name="__main__")
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("final loss")]
    return float(said[0].split()[-1])


TRACKED = {
    "tensorboard": {
        "from torch.utils.tensorboard": "from holter.producers.integrations import tensorboard as holter_tensorboard",
        "from holter.producers.examples": "from holter import producers",
        "writer = ": 'holter_tensorboard.watch(writer, producers.init("hello"))',
    },
    "wandb": {
        "import wandb": "from holter.producers.integrations import wandb as holter_wandb",
        "from holter.producers.examples": "from holter import producers",
        "tracked = ": 'holter_wandb.watch(tracked, producers.init("hello"))',
    },
}


def test_a_tracker_s_script_is_heard(tmp_path: Path) -> None:
    """Its process ends without a word to Holter, as a newcomer's does. Both run at once: most of it is starting."""
    libraries = [library for library in TRACKED if importlib.util.find_spec(library)]
    started = [(tmp_path / library, start_worn(library, tmp_path / library)) for library in libraries]
    for folder, process in started:
        _, said = process.communicate(timeout=400)
        assert process.returncode == 0, said[-3000:]
        onsets = {signal.onset_step for signal in read_story(folder / "holter-runs" / "hello").signals}
        assert {HURT_FROM, HURT_FROM + 1} & onsets  # what that step breaks is in the next loss


def start_worn(library: str, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir()
    worn = folder / "worn.py"
    worn.write_text(with_lines((Path(__file__).parent / "hello" / f"{library}.py").read_text(), TRACKED[library]))
    environ = {**os.environ, "HOLTER_MODE": "local", "WANDB_SILENT": "true"}
    command = [sys.executable, str(worn), "--fault", "lr-burst"]
    return subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
