"""How a training script joins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, cast

from holter.pipeline.bus import Bus
from holter.pipeline.bus.pipe import PipeBus
from holter.producers.connection import connection_from_env
from holter.producers.description import flat_config, host_name, library_versions
from holter.producers.names import checked_key, generated_run_name
from holter.producers.notices import logger
from holter.producers.run import Run, RunSettings
from holter.schemas import Keyring

Mode = Literal["online", "disabled"]
MODE_VARIABLE = "HOLTER_MODE"
_MODES = ("online", "disabled")


def init(
    project: str,
    run: str | None = None,
    config: object = None,
    *,
    mode: Mode | None = None,
    bus: Bus | None = None,
    keyring: Keyring | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Run:
    """Begins a run; connects to nothing yet, and later only on background threads.

    Args:
        project: groups runs; at most 200 bytes together with ``run``.
        run: a name of this run, generated where none is given.
        config: a mapping, dataclass or namespace, sent with the start of the run.
        mode: ``online`` or ``disabled``, by default what ``HOLTER_MODE`` says, else ``online``. Online, the bus is
            that of ``KAFKA_BOOTSTRAP_SERVERS``, else of the local stack (``$HOLTER_HOME/state.json``); with neither
            the run is disabled and says so in one line.
        bus: to use instead of Kafka, with ``keyring``.

    Raises:
        ValueError: a name or the mode cannot be used.
    """
    name = generated_run_name() if run is None else run
    checked_key(project, name)
    settings = RunSettings(
        project,
        name,
        rank=_count(environ, "RANK", 0),
        num_ranks=max(1, _count(environ, "WORLD_SIZE", 1)),
        config={} if config is None else flat_config(config),
        versions=library_versions(),
        host=host_name(),
    )
    if _mode(mode, environ) == "disabled":
        return Run(settings)
    if bus is not None:
        return Run(_with(settings, lambda: bus, keyring))
    return Run(_connected(settings, keyring, environ))


def _mode(mode: str | None, environ: Mapping[str, str]) -> Mode:
    chosen = mode or environ.get(MODE_VARIABLE) or "online"
    if chosen not in _MODES:
        raise ValueError(f"mode {chosen!r} must be one of {', '.join(_MODES)}")
    return cast("Mode", chosen)


def _with(settings: RunSettings, connect: Callable[[], Bus], keyring: Keyring | None) -> RunSettings:
    return replace(settings, connect=connect, keyring=keyring)


def _connected(settings: RunSettings, keyring: Keyring | None, environ: Mapping[str, str]) -> RunSettings:
    connection = connection_from_env(environ)
    if connection is None:
        logger.warning(
            "Holter is off: set KAFKA_BOOTSTRAP_SERVERS, or start the local stack with `holter up` in this folder"
        )
        return settings
    if keyring is None and connection.keyring is None:
        logger.warning("Holter only publishes, no action can be verified: %s", connection.keys_problem)
    bus = PipeBus(connection.kafka)
    return _with(settings, lambda: bus, keyring or connection.keyring)


def _count(environ: Mapping[str, str], variable: str, default: int) -> int:
    text = environ.get(variable, "")
    return int(text) if text.isdigit() else default
