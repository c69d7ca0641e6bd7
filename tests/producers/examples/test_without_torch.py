"""The examples without torch: a burst of the learning rate is seen at its step and undone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holter import producers
from holter.producers.actions import CannotApply
from holter.producers.memory_checkpoints import MemoryCheckpoints
from holter.schemas.control import Rollback
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


def test_a_state_that_was_donated_is_dropped_with_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jax = pytest.importorskip("jax")
    run = producers.init("tests", "donates", mode="offline", runs=tmp_path, environ={}, allow={"rollback"})
    run.log({"train/loss": 1.0}, step=0, commit=True)
    checkpoints = MemoryCheckpoints[object](run)
    step = jax.jit(lambda weights: [weights[0] + 1.0], donate_argnums=0)
    weights = [jax.numpy.zeros(4)]
    for number in (1, 2):
        checkpoints.keep(number, weights)
        weights = step(weights)
    checkpoints.keep(3, jax.tree.map(jax.numpy.copy, weights))
    step(weights)
    names = [f"{run.attempt}-{number:09d}" for number in (2, 3)]
    with pytest.raises(CannotApply, match="kept no longer"):
        checkpoints.restore(Rollback(names[0], 2))
    assert checkpoints.restore(Rollback(names[1], 3))[0].tolist() == [2.0] * 4  # type: ignore[index]
    run.finish()
    lines = [record.message for record in caplog.records if "was donated" in record.message]
    assert lines == ["a kept state was donated to a compiled function: copy it before, jax.tree.map(jnp.copy, state)"]
