from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyflink")

from holter.jobs.arguments import common_arguments, job_parser
from holter.jobs.deployments import open_signals, open_watch, open_window_stats
from holter.jobs.job import Job
from holter.jobs.keyed import Restore
from holter.jobs.signals import SIGNALS
from holter.jobs.watch import WATCH
from holter.jobs.window_stats import WINDOW_STATS
from holter.pipeline.core import run_operator
from holter.pipeline.core.run_operator import Deployment
from holter.pipeline.core.signals import SignalSettings
from holter.schemas import Key, topics


def watch_deployment() -> Deployment:
    return run_operator.watch(Key("k", "issuer", b"s" * 32), None, issuer_epoch=1)


@pytest.mark.parametrize(
    ("job", "deployment"),
    [
        (WATCH, watch_deployment()),
        (WINDOW_STATS, run_operator.WINDOW_STATS),
        (SIGNALS, run_operator.SIGNALS),
    ],
)
def test_job_reads_and_writes_what_its_operators_do(job: Job, deployment: Deployment) -> None:
    assert (job.inputs, job.outputs) == (deployment.sources, deployment.outputs)


def test_readers_write_neither_decisions_nor_control() -> None:
    for job in (WINDOW_STATS, SIGNALS):
        assert not {topics.DECISIONS, topics.CONTROL} & set(job.outputs)


def test_spec_names_topics_under_the_prefix() -> None:
    spec = WATCH.spec("acme", open_signals)
    assert spec.sources["acme-holter-telemetry"] == "holter-telemetry"
    assert list(spec.sources) == ["acme-holter-telemetry", "acme-holter-commands", "acme-holter-holds"]
    assert WATCH.outputs[spec.dead_letters] is topics.DLQ


@pytest.mark.parametrize(
    "open_operators",
    [open_window_stats, open_signals, partial(open_watch, Path("keys.json"), 7, "cautious", SignalSettings())],
)
def test_what_travels_to_the_workers_can_be_pickled(open_operators: Callable[[], Restore]) -> None:
    spec = WATCH.spec("", open_operators)
    assert pickle.loads(pickle.dumps(spec)).sources == spec.sources


def test_names_of_job_and_group() -> None:
    arguments = common_arguments(job_parser("").parse_args(["--bootstrap", "h:1", "--prefix", "acme"]))
    assert arguments.job_name("window_stats") == "holter-window_stats[acme]"
    assert arguments.group("window_stats") == "acme-holter-window-stats"
    assert arguments.offsets == "committed"
    assert arguments.checkpoint_interval_ms is None
