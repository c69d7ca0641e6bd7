"""What judging costs without any service: the detectors of one record, and a whole log through ``holter replay``."""

from __future__ import annotations

import math
import random
import tempfile
import time
from pathlib import Path

from holter.infra.bench.figures import Figure
from holter.pipeline.core.detect.stack import DetectorSettings, DetectorStack
from holter.pipeline.core.steps import StepRecord
from holter.pipeline.replay.replay import replay
from holter.schemas.telemetry import GRAD_NORM, LOSS, UPDATE_NORM

_NUM_ROUNDS = 5
_NUM_REFERENCE = 1_000_000


def measure(num_records: int) -> list[Figure]:
    """Processor time, the best of a few rounds: of three metrics a record, and of a log with loss and gradient norm."""
    noise = random.Random(0)
    records = [_record(step, noise) for step in range(num_records)]
    detectors = min(_judge(records) for _ in range(_NUM_ROUNDS)) / num_records
    reference = min(_reference() for _ in range(_NUM_ROUNDS)) / _NUM_REFERENCE
    rows = 5 * num_records
    with tempfile.TemporaryDirectory() as folder:
        path = _write_log(Path(folder) / "log.csv", rows)
        begun = time.perf_counter()
        replay(path)
        seconds = time.perf_counter() - begun
    told = f"3 metrics; a turn of a plain Python loop (x += i * i) takes {1e9 * reference:.0f} ns here"
    return [
        Figure("detectors_us_per_record", 1e6 * detectors, "µs", 12.0, note=told),
        Figure("replay_seconds_per_million_rows", 1e6 * seconds / rows, "s", 25.0, note=f"one csv of {rows:,} rows"),
    ]


def _record(step: int, noise: random.Random) -> StepRecord:
    values = {
        LOSS: 2.0 + 2.0 * math.exp(-step / 3000.0) + noise.gauss(0.0, 0.03),
        GRAD_NORM: math.exp(noise.gauss(0.0, 0.2)),
        UPDATE_NORM: math.exp(noise.gauss(0.0, 0.2)),
    }
    return StepRecord(1, 0, step, step, step, True, True, values)


def _judge(records: list[StepRecord]) -> float:
    detectors = DetectorStack(DetectorSettings())
    begun = time.process_time()
    for record in records:
        detectors.update(record)
    return time.process_time() - begun


def _reference() -> float:
    begun, x = time.process_time(), 0
    for i in range(_NUM_REFERENCE):
        x += i * i
    return time.process_time() - begun


def _write_log(path: Path, num_rows: int) -> Path:
    noise = random.Random(1)
    with path.open("w") as log:
        log.write("step,loss,grad_norm\n")
        for step in range(num_rows):
            record = _record(step, noise).values
            log.write(f"{step},{record[LOSS]:.5f},{record[GRAD_NORM]:.5f}\n")
    return path
