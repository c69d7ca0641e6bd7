"""From a step handed over in the trainer to the action latched there, against a bare two-hop Kafka echo.

Both sides alternate in blocks on one broker, at 20 a second. The Holter side is the real one: ``Run``, its sender,
broker, ``watch`` on Flink, the signed action back, verified and latched. Each sample is an exploding gradient norm
under the policy ``report``, whose moment reset needs no checkpoint; calm steps follow, so that its incident ends and
the cooldown passes. The echo carries a record of the same size through kafka-python alone, another process in between.
"""

from __future__ import annotations

import logging
import math
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holter.infra.bench.figures import Figure, percentile
from holter.infra.errors import StackError
from holter.infra.state import StackState
from holter.pipeline.bus import Message
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.producers import init
from holter.producers.latch import Permissions
from holter.producers.records import BatchFacts
from holter.producers.run import Beginning, Run
from holter.schemas.bounds import EffectName
from holter.schemas.telemetry import GRAD_NORM, LOSS, UPDATE_NORM
from holter.schemas.topics import RANKS, TELEMETRY, WINDOWS

PERIOD_SECONDS = 0.05
BLOCK_SAMPLES = 4
"""Each block is a run of its own: what one run gets over again and again passes for its own way from the sixth on."""
_NUM_WARM_BLOCKS = 8
MAX_LOST = 5
_CALM_STEPS = 360
"""Between two explosions: of three in a thousand steps a run does not learn that they are its own way."""
_SETTLE_SECONDS = 0.1
"""Those steps are judged by then, and the next explosion meets an idle watch, as that of a slow loop does."""
_TIMEOUT_SECONDS = 10.0
_EFFECTS: frozenset[EffectName] = frozenset({"momentum_reset"})


@dataclass
class Samples:
    """Milliseconds. ``boundary`` is the wait from the latch to the next step's boundary."""

    action: list[float] = field(default_factory=list)
    boundary: list[float] = field(default_factory=list)
    echo: list[float] = field(default_factory=list)
    num_lost: int = 0


def measure(state: StackState, environ: dict[str, str], num_samples: int) -> tuple[list[Figure], Samples]:
    """Alternates blocks until both sides have so many samples."""
    settings = KafkaSettings(state.kafka_bootstrap or "", state.prefix)
    logging.getLogger("holter").setLevel(logging.ERROR)  # each of the actions is a line else
    samples = Samples()
    trainer = _Trainer(environ)
    with _echo(settings) as echo:
        echo.size_bytes = trainer.record_bytes(settings)
        trainer.run.finish()
        for _ in range(_NUM_WARM_BLOCKS):
            _block(environ, echo, Samples())  # warms the JVM's path up
        while len(samples.action) < num_samples:
            _block(environ, echo, samples)
    return _figures(samples), samples


def _block(environ: dict[str, str], echo: _Echo, samples: Samples) -> None:
    """One on each side."""
    trainer = _Trainer(environ)
    trainer.block(samples, BLOCK_SAMPLES)
    trainer.run.finish()
    echo.block(samples, BLOCK_SAMPLES)


class _Trainer:
    """The training side: one run whose gradient explodes once a period."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.run: Run = init("bench", f"latency-{time.time_ns()}", environ=environ)
        self._noise = random.Random(0)
        self._step = 0
        permissions = Permissions(_EFFECTS, _EFFECTS)
        self.run.begin(Beginning(time.time_ns() // 1_000_000, permissions))
        assert self.run.control is not None, "the stack's key file was not found"
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not self.run.control.is_armed and time.monotonic() < deadline:
            time.sleep(0.01)
        self._calm()

    def record_bytes(self, settings: KafkaSettings) -> int:
        """The size of a single-step record as it travels."""
        reader = KafkaBus(settings).reader([TELEMETRY], "latest", "bench-size")
        self._log(1.0)
        sizes: list[int] = []
        while not sizes:
            sizes = [len(message.value or b"") for message in reader.poll(1.0) if b"latency-" in (message.key or b"")]
        reader.close()
        return sizes[0]

    def block(self, samples: Samples, count: int) -> None:
        """The period runs from the calm steps to the next explosion, as between the steps of a slow loop."""
        for _ in range(count):
            time.sleep(_SETTLE_SECONDS + PERIOD_SECONDS)
            self._sample(samples)
            if samples.num_lost > MAX_LOST:
                raise StackError(f"{samples.num_lost} explosions were not answered; something is wrong with watch")

    def _sample(self, samples: Samples) -> None:
        control = self.run.control
        assert control is not None
        control.latched.clear()
        begun = time.perf_counter()
        self._log(50.0)
        if not control.latched.wait(_TIMEOUT_SECONDS):
            samples.num_lost += 1
            self._calm()
            return
        latched_at = time.perf_counter()
        samples.action.append(1000 * (latched_at - begun))
        latched = control.take(self._step)
        assert latched is not None
        control.record_applied(latched)
        self.run.acknowledge(latched.action, "applied", self._step, digest=latched.digest)
        samples.boundary.append(1000 * max(0.0, begun + PERIOD_SECONDS - latched_at))
        self._calm()

    def _calm(self) -> None:
        for _ in range(_CALM_STEPS):
            self._log(1.0)

    def _log(self, grad: float) -> None:
        noise = self._noise
        values = {
            LOSS: 2.0 + noise.gauss(0.0, 0.02),
            GRAD_NORM: grad * math.exp(noise.gauss(0.0, 0.1)),
            UPDATE_NORM: 0.1 * math.exp(noise.gauss(0.0, 0.1)),
        }
        self.run.log_step(values, self._step, time.time_ns() // 1_000_000, True, BatchFacts())
        self._step += 1


class _Echo:
    """The bare side: publishes a record and waits until it comes back."""

    def __init__(self, settings: KafkaSettings) -> None:
        bus = KafkaBus(settings)
        self.size_bytes = 256
        self._publisher = bus.publisher("bench-echo-client")
        self._reader = bus.reader([WINDOWS], "latest", "bench-echo-client")
        self._came = threading.Event()
        self._expected = b""
        self._stopping = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def block(self, samples: Samples, count: int) -> None:
        tick = time.perf_counter()
        for number in range(count):
            tick = _sleep_until(tick + PERIOD_SECONDS)
            self._expected = b"%d-%d" % (number, time.time_ns())
            self._came.clear()
            begun = time.perf_counter()
            self._publisher.publish(RANKS, b"bench/echo", self._expected.ljust(self.size_bytes, b"."))
            if self._came.wait(_TIMEOUT_SECONDS):
                samples.echo.append(1000 * (time.perf_counter() - begun))

    def close(self) -> None:
        self._stopping = True
        self._thread.join(2.0)
        self._publisher.close(1.0)

    def _read(self) -> None:
        while not self._stopping:
            for message in self._reader.poll(0.5):
                self._note(message)
        self._reader.close()

    def _note(self, message: Message) -> None:
        if (message.value or b"").startswith(self._expected):
            self._came.set()


@contextmanager
def _echo(settings: KafkaSettings) -> Iterator[_Echo]:
    command = [sys.executable, "-m", "holter.infra.bench.echo", settings.bootstrap, settings.prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        echo = _Echo(settings)
        try:
            yield echo
        finally:
            echo.close()
            server.terminate()


def _sleep_until(moment: float) -> float:
    """Sleeps until a moment of ``perf_counter``; returns it, or now where it is past."""
    left = moment - time.perf_counter()
    if left <= 0:
        return time.perf_counter()
    time.sleep(left)
    return moment


def _figures(samples: Samples) -> list[Figure]:
    figures = []
    for name, share, target in (("p50", 0.5, 1.3), ("p99", 0.99, 1.5)):
        action, echo = percentile(samples.action, share), percentile(samples.echo, share)
        note = f"{action:.1f} ms against {echo:.1f} ms of a bare echo, {len(samples.action)} samples"
        figures.append(Figure(f"action_{name}_ratio", action / echo, "", target, note=note))
    wait = percentile(samples.boundary, 0.5)
    figures.append(Figure("boundary_wait_p50_ms", wait, "ms", note="latch to the next boundary at 20 steps/s"))
    return figures
