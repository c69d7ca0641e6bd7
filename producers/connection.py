"""Where the bus and the keys are: from the environment, else from the local stack's state file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from holter.pipeline.bus.settings import KafkaSettings, kafka_settings_from_env
from holter.schemas import KeyFileError, Keyring
from holter.schemas.signed import KEYS_FILE_VARIABLE

HOME_VARIABLE = "HOLTER_HOME"
DEFAULT_HOME = ".holter"


@dataclass(frozen=True)
class Connection:
    """``keyring`` is None where no keys are to be had: the trainer then only publishes."""

    kafka: KafkaSettings
    keyring: Keyring | None = None
    keys_problem: str = ""


def connection_from_env(environ: Mapping[str, str]) -> Connection | None:
    """None where neither ``KAFKA_BOOTSTRAP_SERVERS`` nor a local stack is found. Reads files, connects to nothing."""
    kafka = kafka_settings_from_env(environ)
    stack = _stack_state(environ) if kafka is None else {}
    if kafka is None and stack.get("kafka.bootstrap"):
        kafka = kafka_settings_from_env(environ, str(stack["kafka.bootstrap"]), str(stack.get("prefix") or ""))
    if kafka is None:
        return None
    keyring, problem = _keyring(environ.get(KEYS_FILE_VARIABLE) or str(stack.get("keys_file") or ""))
    return Connection(kafka, keyring, problem)


def _stack_state(environ: Mapping[str, str]) -> dict[str, Any]:
    path = Path(environ.get(HOME_VARIABLE) or DEFAULT_HOME) / "state.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}


def _keyring(path: str) -> tuple[Keyring | None, str]:
    if not path:
        return None, f"{KEYS_FILE_VARIABLE} names no key file"
    try:
        return Keyring(Path(path)), ""
    except KeyFileError as error:
        return None, str(error)
