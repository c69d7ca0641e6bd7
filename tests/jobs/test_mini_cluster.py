"""What the fake runtime cannot see: real keying, real timers, real recovery."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyflink")

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from holter.schemas import codec
from holter.schemas.bounds import MAX_RECORD_BYTES
from tests.jobs.echo import Echo

pytestmark = [pytest.mark.flink, pytest.mark.services]

DEADLINE_SECONDS = 100
KEYS = ("p/r0", "p/r1")


class Topics:
    """The topics of one job, written and read over again from the beginning."""

    def __init__(self, bootstrap: str, mode: str) -> None:
        self._mode = mode
        names = [f"{mode}-{name}" for name in ("a", "b", "echoes", "dead")]
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic(name=name, num_partitions=2, replication_factor=1) for name in names])
        admin.close()
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._consumer = KafkaConsumer(*names[2:], bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        self.echoes: dict[str, list[bytes]] = {}
        self.dead: list[Any] = []

    def send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        self._producer.send(f"{self._mode}-{topic}", key=key, value=value)

    def send_numbers(self, numbers: range) -> None:
        for number in numbers:
            self.send("a", KEYS[number % len(KEYS)].encode(), b"%d" % number)
        self._producer.flush()

    def read_until(self, job: Job, *, dead: int = 0, **counts: int) -> None:
        """Reads until these counts of keys (named without their project) were echoed and so many records are dead."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(self.dead) < dead or not all(self._has(f"p/{run}", count) for run, count in counts.items()):
            job.check_alive()
            assert time.monotonic() < deadline, f"{len(self.dead)} dead, {self.echoes}"
            self._read()

    def _has(self, key: str, count: int) -> bool:
        return any(b":%d:" % count in echo for echo in self.echoes.get(key, ()))

    def _read(self) -> None:
        for partition, records in self._consumer.poll(timeout_ms=200).items():
            for record in records:
                if partition.topic.endswith("dead"):
                    self.dead.append(codec.dead_letters.decode(record.value))
                else:
                    echoes = self.echoes.setdefault(record.key.decode(), [])
                    if record.value not in echoes:  # at least once: a recovery says some again
                        echoes.append(record.value)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


class Job:
    """The job in a process group of its own, killed without mercy at the end of a ``with`` block."""

    def __init__(self, environ: dict[str, str], log: Path, **options: str) -> None:
        script = Path(__file__).with_name("echo_job.py")
        arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(script), *arguments],
                env=environ,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def check_alive(self) -> None:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def newest_checkpoint(folder: Path) -> Path | None:
    finished = [metadata.parent for metadata in folder.glob("*/chk-*/_metadata")]
    return max(finished, key=_number, default=None)


def await_next_checkpoint(folder: Path) -> None:
    """Returns once a checkpoint that began after this call is finished."""
    newest = newest_checkpoint(folder)
    wanted = (_number(newest) if newest else 0) + 2
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (newest := newest_checkpoint(folder)) is None or _number(newest) < wanted:
        assert time.monotonic() < deadline, f"no checkpoint {wanted} in {folder}"
        time.sleep(0.05)


def _number(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("chk-"))


def expected_echoes(key: str, values: list[bytes]) -> list[bytes]:
    operator = Echo(key)
    return [output.value for value in values for output in operator.update("a", value, 0)]


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_job_survives_a_kill(bootstrap: str, flink_environ: dict[str, str], mode: str, tmp_path: Path) -> None:
    topics = Topics(bootstrap, mode)
    checkpoints, log = tmp_path / "checkpoints", tmp_path / "job.log"
    options = {"bootstrap": bootstrap, "mode": mode, "checkpoints": str(checkpoints)}
    topics.send("b", b"p/timer", b"timer")
    for key, value in ((None, b"x"), (b"\xff\xfe", b"x"), (b"k" * 300, b"x"), (b"p/dead", None)):
        topics.send("b", key, value)
    topics.send("b", b"p/dead", b"refuse")
    topics.send("b", b"p/dead", b"break")
    topics.send("b", b"p/dead", b"x" * (MAX_RECORD_BYTES + 1))
    topics.send_numbers(range(200))

    with Job(flink_environ, log, **options) as job:
        topics.read_until(job, r0=100, r1=100, timer=2, dead=7)
        await_next_checkpoint(checkpoints)
        topics.send_numbers(range(200, 220))
        topics.read_until(job, r0=110, r1=110)
    recovered = newest_checkpoint(checkpoints)
    assert recovered is not None
    topics.send_numbers(range(220, 240))
    with Job(flink_environ, log, **options, recover_from=recovered.as_uri()) as job:
        topics.read_until(job, r0=120, r1=120)
    topics.close()

    for index, run in enumerate(KEYS):
        assert topics.echoes[run] == expected_echoes(run, [b"%d" % number for number in range(index, 240, 2)])
    assert [echo.split(b":")[0] for echo in topics.echoes["p/timer"]] == [b"b/timer", b"timer"]
    assert {letter.detail for letter in topics.dead} == {
        "the record has no key",
        "the key is not UTF-8",
        "the key is too long",
        "the record has no value",
        "the value is too long",
        "asked for",
        "broken",
    }
    assert all(letter.topic == f"{mode}-b" for letter in topics.dead)
    assert MAX_RECORD_BYTES + 1 in {letter.num_bytes for letter in topics.dead}
