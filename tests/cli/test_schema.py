"""``holter schema`` prints one JSON document."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from holter.pipeline.cli.main import app
from holter.schemas.json_schema import RECORDS


def test_one_record_all_records_and_one_that_does_not_exist() -> None:
    one = CliRunner().invoke(app, ["schema", "metric_batch"])
    assert json.loads(one.output)["$ref"] == "#/$defs/MetricBatch"
    every = json.loads(CliRunner().invoke(app, ["schema"]).output)
    assert len(every["oneOf"]) == len(RECORDS)
    none = CliRunner().invoke(app, ["schema", "nonsense"])
    assert none.exit_code == 2
    assert "metric_batch" in none.output
