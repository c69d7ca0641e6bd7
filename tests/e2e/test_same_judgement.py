"""`watch` on the real Flink says, byte for byte, what the in-process driver says of the same records."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest

from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.memory import MemoryBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.pipeline.core.run_operator import watch
from holter.pipeline.local.driver import Driver
from holter.schemas import Keyring
from holter.schemas.telemetry import GRAD_NORM, LOSS, CheckpointSaved, Finished
from holter.schemas.topics import CONTROL, DECISIONS, DLQ, SIGNALS, TELEMETRY, WINDOWS, Topic
from tests.core.test_run_operator import calm_rows
from tests.telemetry import ALL_EFFECTS, Trainer

OUTPUTS = (WINDOWS, SIGNALS, DECISIONS, CONTROL, DLQ)
DEADLINE_SECONDS = 120.0


def night(trainer: Trainer) -> list[bytes]:
    """A run that spikes, heals, is given a NaN, and ends; with a record twice and one that cannot be read."""
    records = [trainer.event(ALL_EFFECTS)]
    records += [trainer.steps([row]) for row in calm_rows(50)]
    records.append(trainer.event(CheckpointSaved("step-49", 0.05)))
    records.append(trainer.steps(calm_rows(120, seed=1)))
    records += [trainer.steps([{LOSS: 2.0 + 3.0 * 0.8**index, GRAD_NORM: 1.0}]) for index in range(40)]
    records += [records[-1], b"\xc1 not a record"]
    records.append(trainer.steps([{LOSS: math.nan, GRAD_NORM: math.inf}]))
    records.append(trainer.event(Finished()))
    return records


@pytest.mark.services
def test_flink_and_the_driver_say_the_same(stack: Any) -> None:
    state = stack.state()
    trainer = Trainer(run=f"same-{time.time_ns()}")
    key = f"{trainer.project}/{trainer.run}".encode()
    records = night(trainer)

    keyring = Keyring(Path(state.keys_file))
    deployment = watch(keyring.signer("issuer"), keyring, state.issuer_epoch)
    memory = MemoryBus(lambda: 0)
    driver = Driver(deployment, memory, {}, "watch")
    for record in records:
        memory.append(TELEMETRY, key, record)
    driver.poll(time.time_ns() // 1_000_000)  # the records are old by now: judged for the record, on both sides

    kafka = KafkaBus(KafkaSettings(state.kafka_bootstrap, state.prefix))
    reader = kafka.reader(OUTPUTS, "latest", "test")
    publisher = kafka.publisher("test")
    for record in records:
        publisher.publish(TELEMETRY, key, record)
    assert publisher.flush(DEADLINE_SECONDS)
    expected = {topic.name: [message.value for message in memory.log(topic)] for topic in OUTPUTS}
    assert all(expected.values())

    said: dict[str, list[bytes | None]] = {topic.name: [] for topic in OUTPUTS}
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline and any(len(said[name]) < len(values) for name, values in expected.items()):
        for message in reader.poll(0.2):
            if message.key == key:
                said[message.topic].append(message.value)
    assert _without_place(said) == _without_place(expected)


def _without_place(said: dict[str, list[bytes | None]]) -> dict[str, list[Any]]:
    """Dead letters name the broker's offsets, which differ; what was refused, and why, must not."""
    decode: dict[str, Topic] = {topic.name: topic for topic in OUTPUTS}
    letters = [decode[DLQ.name].decoder.decode(value or b"") for value in said[DLQ.name]]
    return {**said, DLQ.name: [(letter.reason, letter.value, letter.reader) for letter in letters]}
