"""``holter compare``: two logs, a verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli.main import app


def log(path: Path, num_steps: int, size: float, ramp: float = 0.0, done: float = 1.0) -> Path:
    shares = [step / num_steps for step in range(1, int(done * num_steps) + 1)]
    losses = [size * (1.0 + (1.0 - at) ** 2 + ramp * max(0.0, at - 0.6)) for at in shares]
    lines = [json.dumps({"step": step, "loss": loss}) for step, loss in enumerate(losses, 1)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def holter_compare(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_a_run_that_leaves_its_reference_is_told_with_the_step(tmp_path: Path) -> None:
    reference = log(tmp_path / "small.jsonl", 1000, 3.0)
    run = log(tmp_path / "large.jsonl", 2000, 2.0, ramp=0.5, done=0.8)
    done = holter_compare(run, "--reference", reference, "--steps", 2000, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["metric"] == "train/loss"
    assert found["expected_final_loss"] == pytest.approx(2.0, rel=0.05)
    assert 1200 < found["onset_step"] < 1400
    assert "above its reference since step" in holter_compare(run, "--reference", reference, "--steps", 2000).output


def test_a_run_that_follows_it_is_said_so(tmp_path: Path) -> None:
    reference, run = log(tmp_path / "small.jsonl", 1000, 3.0), log(tmp_path / "large.jsonl", 1000, 2.0)
    done = holter_compare(run, "--reference", reference)
    assert done.exit_code == 0, done.output
    assert "not above its reference" in done.output
    assert "it would end at 2.0" in " ".join(done.output.split())


def test_what_cannot_be_compared_is_one_line_and_exit_2(tmp_path: Path) -> None:
    reference, run = log(tmp_path / "small.jsonl", 1000, 3.0), log(tmp_path / "large.jsonl", 1000, 2.0, done=0.3)
    done = holter_compare(run, "--reference", reference, "--steps", 1000)
    assert done.exit_code == 2
    assert "half done" in done.output
    (tmp_path / "empty.jsonl").write_text("")
    done = holter_compare(tmp_path / "empty.jsonl", "--reference", reference)
    assert done.exit_code == 2
    assert "empty.jsonl: it is empty" in done.output.replace("\n", "")
