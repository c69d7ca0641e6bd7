"""A live torch run is hurt and healed through the real broker, cluster and engine."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holter.pipeline.store.client import connect
from holter.pipeline.store.dsn import parse_dsn

STEPS, FAULT_AT = 300, 200
DEADLINE_SECONDS = 120.0


@pytest.mark.services
@pytest.mark.torch
@pytest.mark.timeout(480)
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_a_burst_of_the_learning_rate_is_rolled_back(stack: Any, tmp_path: Path) -> None:
    run = f"rescue-{time.time_ns()}"
    command = [sys.executable, "-m", "holter.infra.demo.train", "--arm", "guarded", "--run-name", run,
               "--checkpoints", str(tmp_path), "--num-steps", str(STEPS), "--fault-at", str(FAULT_AT)]  # fmt: skip
    environ = {**os.environ, "HOLTER_HOME": str(stack.home)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines()]
    result = next(item for item in said if item["event"] == "result")
    assert result["executed"] == STEPS
    assert 0 < result["steps_lost"] < 120

    rows = _wait_for_outcome(stack.state().store_dsn, run)
    (action,) = rows
    assert action["status"] == "applied"
    assert "rollback" in action["effects"]
    assert action["result"] == "recovered"
    assert action["applied_step"] > FAULT_AT


def _wait_for_outcome(dsn: str, run: str) -> list[dict[str, Any]]:
    """The run's actions, once its end is in the store."""
    client = connect(parse_dsn(dsn))
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        finished = client.query("SELECT status FROM runs WHERE run = {run:String}", {"run": run}).result_rows
        if finished and finished[0][0] == "completed":
            break
        time.sleep(0.5)
    result = client.query("SELECT * FROM actions WHERE run = {run:String}", {"run": run})
    return list(result.named_results())
