"""The example's logs, diagnosed as its first lines say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holter.pipeline.cli.main import app
from holter.producers.examples import failed_job_logs

pytestmark = pytest.mark.frameworks


def test_the_full_disk_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed_job_logs.main(tmp_path)
    command = capsys.readouterr().out.removeprefix("now: holter ").split()
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert found["suspects"][0]["node"] == failed_job_logs.BAD_NODE
    assert found["patterns"][0]["name"] == "disk-full"
    assert found["onset"]["iteration"] == failed_job_logs.STEPS
