"""The exports that the documentation shows, run as they stand there and read by replay."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.log import Log
from holter.pipeline.replay.reading import read_log

PAGE = Path(__file__).parents[3] / "docs" / "integrations" / "trackers.md"
TRACKIO_TABLE = """CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
    timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL)"""


def run_shown(heading: str, **known: Any) -> None:
    """Executes the one block of Python below a heading."""
    section = PAGE.read_text().split(f"\n### {heading}\n")[1].split("\n### ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(compile(block, heading, "exec"), known)


def read(path: Path) -> Log:
    return read_log(path, ColumnNames({}), None)


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """trackio 0.43 keeps a row as a JSON object in bytes, and writes what is not finite as text."""
    monkeypatch.chdir(tmp_path)
    rows = [("a", 1, {"train/loss": 2.5, "grad_norm": 1.0}), ("b", 1, {"train/loss": 9.0}),
            ("a", 2, {"train/loss": "NaN"})]  # fmt: skip
    with sqlite3.connect("p.db") as db:
        db.execute(TRACKIO_TABLE)
        for name, step, metrics in rows:
            db.execute(
                "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('', '', ?, ?, ?)",
                (name, step, json.dumps(metrics).encode()),
            )
    run_shown("trackio", database="p.db", run_name="a")
    log = read(Path("rows.jsonl"))
    assert log.steps == [1, 2]
    first, second = log.metrics["train/loss"]
    assert first == 2.5
    assert second is not None
    assert math.isnan(second)


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a client that answers as MLflow's does: entities with ``step`` and ``value``, a metric a call."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(
        sys.modules, "mlflow", _mlflow({"loss": [(5, 2.0), (6, 3.0)], "grad_norm": [(5, 1.0), (6, 1.5)]})
    )
    run_shown("MLflow", run_id="r")
    log = read(Path("history.json"))
    assert log.steps == [5, 6]
    assert log.metrics["train/loss"] == [2.0, 3.0]
    assert log.metrics["train/grad_norm"] == [1.0, 1.5]


def _mlflow(history: dict[str, list[tuple[int, float]]]) -> ModuleType:
    entities = {name: [SimpleNamespace(step=s, value=v) for s, v in points] for name, points in history.items()}
    client = SimpleNamespace(
        get_run=lambda _: SimpleNamespace(data=SimpleNamespace(metrics=dict.fromkeys(history, 0.0))),
        get_metric_history=lambda _, name: entities[name],
    )
    module = ModuleType("mlflow")
    vars(module)["MlflowClient"] = lambda: client
    return module
