"""A hello-world of Keras wears Holter by two lines; a burst of the learning rate is seen and undone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.producers.integrations.recorded import read_story

pytestmark = [pytest.mark.services, pytest.mark.frameworks, pytest.mark.timeout(480)]

PLAIN = Path(__file__).parent / "hello" / "keras_fit.py"
IMPORTED = "import numpy as np"
PREPARED = 'callbacks = [LrBurst("lr-burst" if "lr-burst" in sys.argv else "none")]'
LINES = {
    IMPORTED: "from holter.producers.integrations.keras import HolterCallback",
    PREPARED: 'callbacks.append(HolterCallback("hello", allow={"lr_factor", "rollback"}))',
}
UNTREATED = 0.2
"""It ends above this when nothing is done, and two orders lower when nothing happens."""


def final_losses(scripts: Sequence[Path], folder: Path) -> list[float]:
    """One after the other in a process of their own: most of it is importing Keras and JAX."""
    run = "import runpy, sys; [runpy.run_path(script, run_name='__main__') for script in sys.argv[3:]]"
    environ = {**os.environ, "HOLTER_MODE": "local", "KERAS_HOME": str(folder / "keras")}
    command = [sys.executable, "-c", run, "--fault", "lr-burst", *map(str, scripts)]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("final loss")]


@pytest.mark.skipif(
    not (importlib.util.find_spec("keras") and importlib.util.find_spec("jax")), reason="needs keras and jax"
)
def test_two_lines_are_enough(tmp_path: Path) -> None:
    text = PLAIN.read_text()
    for after, line in LINES.items():
        assert text.count(f"{after}\n") == 1
        text = text.replace(after, f"{after}\n{line}")
    worn = tmp_path / "worn.py"
    worn.write_text(text)
    untreated, treated = final_losses((PLAIN, worn), tmp_path)
    assert untreated > UNTREATED
    assert treated < UNTREATED / 10
    story = read_story(tmp_path / "holter-runs" / "hello")
    assert 200 in {signal.onset_step for signal in story.signals}
    assert "rollback" in story.effects()
