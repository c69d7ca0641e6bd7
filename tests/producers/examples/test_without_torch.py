"""The examples without torch: a burst of the learning rate is seen at its step and undone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.producers.integrations.recorded import read_story

pytestmark = [pytest.mark.frameworks, pytest.mark.services, pytest.mark.timeout(480)]

SCRIPT = """
import os, sys
from holter.producers.examples import {name}
for mode, fault in (("disabled", "none"), ("disabled", "lr-burst"), ("local", "lr-burst")):
    os.environ["HOLTER_MODE"] = mode
    {name}.main(["--fault", fault])
assert not {{"torch", "tensorflow"}} & set(sys.modules)
"""


@pytest.mark.parametrize(("name", "library"), [("jax_loop", "jax"), ("keras_fit", "keras")])
def test_a_burst_is_seen_at_its_step_and_undone(name: str, library: str, tmp_path: Path) -> None:
    for needed in {"jax", library}:
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    environ = {**os.environ, "KERAS_BACKEND": "jax", "KERAS_HOME": str(tmp_path / "keras")}
    command = [sys.executable, "-c", SCRIPT.format(name=name)]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    unhurt, untreated, treated = (float(line.split()[-1]) for line in done.stdout.splitlines() if "final loss" in line)
    story = read_story(tmp_path / "holter-runs" / "examples")
    assert 200 in {signal.onset_step for signal in story.signals}
    assert "rollback" in story.effects()
    assert untreated > 2 * unhurt
    assert (untreated - treated) / (untreated - unhurt) >= 0.8
