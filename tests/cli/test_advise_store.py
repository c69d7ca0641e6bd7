"""What ``holter advise`` asks, asked of a real store."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from holter.pipeline.cli.main import app
from holter.schemas.telemetry import RunEvent, Started
from holter.schemas.topics import TELEMETRY
from tests.fit.test_queries import WHO, incident
from tests.loader.memory_log import START_MS, MemoryLog
from tests.loader.test_load_into_store import load
from tests.store.conftest import store
from tests.store.embedded import EmbeddedStore

__all__ = ["store"]

pytestmark = pytest.mark.services


def test_the_history_of_a_project_and_of_a_run(store: EmbeddedStore) -> None:
    log = MemoryLog()
    incident(log, "healed", "recovered")
    incident(log, "lost", "lost")
    log.append(TELEMETRY, RunEvent(*WHO, 0, "s", 9, 0, START_MS, Started()))
    load(store, log)
    for of_run in ("p", "p/fit"):
        done = CliRunner().invoke(app, ["advise", of_run, "--parameters", "1B", "--dsn", store.dsn.url, "--json"])
        assert done.exit_code == 0, done.output
        history = json.loads(done.stdout)["history"]
        assert (history["num_loss"], history["num_lost"]) == (2, 1)
