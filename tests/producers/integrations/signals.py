"""Signals for tests."""

from __future__ import annotations

from typing import Any

from holter.schemas import encode
from holter.schemas.signals import Signal
from holter.schemas.topics import SIGNALS
from tests.producers.watch import FakeWatch, now_ms

_WORDS: dict[str, Any] = {
    "id": "s" * 32, "attempt": 0, "rank": 0, "step": 12, "seq": 1, "kind": "loss_spike", "severity": "warning",
    "phase": "open", "incident": "i" * 32, "state": "spike", "onset_step": 10, "metric": "train/loss", "value": 9.0,
    "baseline": 2.0, "score": 7.0, "threshold": 5.0, "peak": 9.0, "num_steps": 2, "p_recover": 0.25,
    "explanation": "the loss jumped",
}  # fmt: skip


def a_signal(**words: Any) -> Signal:
    return Signal(**{**_WORDS, "project": "tests", "run": "run", "ts": now_ms(), **words})


def say(told: FakeWatch, **words: Any) -> None:
    """As if the detectors said it of a run."""
    told.send(SIGNALS, encode(a_signal(project=told.project, run=told.run, **words)))
