"""How a worker gets its operators. Keys are read here, on the worker, and never travel with a job."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from holter.jobs.keyed import Restore, wall_clock_ms
from holter.pipeline.core import run_operator
from holter.pipeline.core.operator import Operator
from holter.pipeline.core.run_operator import Deployment
from holter.pipeline.core.signals import SignalSettings
from holter.pipeline.core.silence import Arrivals
from holter.schemas import Keyring


def open_watch(keys_file: Path, issuer_epoch: int, policy: str, settings: SignalSettings) -> Restore:
    """Raises:
    KeyFileError: the file is missing, open to others, or has no issuer key.
    """
    keyring = Keyring(keys_file)
    return _restorer(run_operator.watch(keyring.signer("issuer"), keyring, issuer_epoch, policy, settings))


def open_window_stats() -> Restore:
    return _restorer(run_operator.WINDOW_STATS)


def open_signals() -> Restore:
    return _restorer(run_operator.SIGNALS)


def _restorer(deployment: Deployment) -> Restore:
    return partial(_restore, deployment, Arrivals(wall_clock_ms()))


def _restore(deployment: Deployment, arrivals: Arrivals, key: str, snapshot: bytes | None) -> Operator:
    return run_operator.restore(key, deployment, snapshot, arrivals)
