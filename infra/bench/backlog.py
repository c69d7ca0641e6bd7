"""Fills a prefix's telemetry topic with runs that are calm, before anyone reads it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from holter.infra.topics import create_topics, plan_topics
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas import encode
from holter.schemas.telemetry import GRAD_NORM, LOSS, UPDATE_NORM, MetricBatch, SparseColumn, pack_floats, pack_ints
from holter.schemas.topics import TELEMETRY

_NUM_RUNS = 8
_FLUSH_EVERY = 20_000


@dataclass(frozen=True)
class Backlog:
    """``num_steps`` steps over eight runs, ``steps_per_record`` in each record, ``num_metrics`` values a step."""

    num_steps: int
    steps_per_record: int
    num_metrics: int = 3

    @property
    def name(self) -> str:
        """Also the prefix of its topics and the project of its runs."""
        return f"bench{self.steps_per_record}x{self.num_metrics}"


def fill(settings: KafkaSettings, backlog: Backlog) -> None:
    """Creates the prefix's topics and publishes the backlog, the runs taking turns."""
    create_topics(settings, plan_topics(settings))
    publisher = KafkaBus(settings).publisher("bench-backlog")
    for number, (key, value) in enumerate(_records(backlog)):
        publisher.publish(TELEMETRY, key, value)
        if number % _FLUSH_EVERY == _FLUSH_EVERY - 1:
            publisher.flush(60.0)
    publisher.flush(60.0)
    publisher.close(5.0)


def _records(backlog: Backlog) -> Iterator[tuple[bytes, bytes]]:
    noise = random.Random(0)
    per_run = backlog.num_steps // _NUM_RUNS
    size = backlog.steps_per_record
    begun_ms = time.time_ns() // 1_000_000
    names = [LOSS, GRAD_NORM, UPDATE_NORM, *(f"train/value_{number}" for number in range(backlog.num_metrics - 3))]
    for first in range(0, per_run, size):
        for run in range(_NUM_RUNS):
            steps = range(first, first + size)
            columns: dict[str, bytes | SparseColumn] = {
                name: pack_floats(*(_value(name, step, noise) for step in steps)) for name in names
            }
            times = pack_ints(*(begun_ms + step for step in steps))
            batch = MetricBatch(
                backlog.name, f"backlog-{run}", 1, 0, "bench", first // size, pack_ints(*steps), times, columns
            )
            yield f"{backlog.name}/backlog-{run}".encode(), encode(batch)


def _value(name: str, step: int, noise: random.Random) -> float:
    if name == LOSS:
        return 2.0 + 2.0 * math.exp(-step / 3000.0) + noise.gauss(0.0, 0.03)
    return math.exp(noise.gauss(0.0, 0.2))
