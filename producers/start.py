"""How a training script joins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from holter.pipeline.bus import Bus
from holter.pipeline.bus.pipe import PipeBus
from holter.producers.actions import loop_permissions
from holter.producers.connection import Connection
from holter.producers.description import flat_config, host_name, library_versions
from holter.producers.names import checked_key, folder_name, generated_run_name
from holter.producers.notices import logger
from holter.producers.recorder_bus import RecorderBus, Recording, session_key
from holter.producers.run import Run, RunSettings
from holter.producers.surroundings import Mode, Surroundings, surroundings_from_env
from holter.schemas import Keyring
from holter.schemas.bounds import Autonomy, EffectName


def init(
    project: str,
    run: str | None = None,
    config: object = None,
    *,
    mode: Mode | None = None,
    allow: Iterable[EffectName] = (),
    autonomy: Mapping[EffectName, Autonomy] | None = None,
    runs: str | Path | None = None,
    bus: Bus | None = None,
    keyring: Keyring | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Run:
    """Begins a run; connects to nothing yet, and later only on background threads.

    Args:
        project: groups runs; at most 200 bytes together with ``run``.
        run: a name of this run, generated where none is given.
        config: a mapping, dataclass or namespace, sent with the start of the run.
        mode: by default what ``HOLTER_MODE`` says, else ``online``.
            ``online``: the bus is that of ``KAFKA_BOOTSTRAP_SERVERS``, else of the local stack
            (``$HOLTER_HOME/state.json``); with neither the run is disabled and says so in one line.
            ``local``: judged and kept on this machine by a process of its own; needs no Kafka, Flink or Java.
            ``offline``: kept and not judged. ``holter sync`` sends what was kept later. Both are of rank 0 alone.
            ``disabled``: nothing.
        allow: effects that a loop without a ``Guard`` applies itself, by :meth:`Run.poll_actions`; in one process
            only, since ranks could not agree.
        autonomy: how far an allowed effect goes, by name; ``auto`` where nothing is said.
        runs: the folder below which local and offline runs are kept, by default ``HOLTER_RUNS``, else ``holter-runs``.
        bus: to use instead of what the mode says, with ``keyring``.

    Raises:
        ValueError: a name, the mode or an effect cannot be used.
    """
    name = generated_run_name() if run is None else run
    checked_key(project, name)
    around = surroundings_from_env(environ, mode)
    settings = RunSettings(
        project,
        name,
        rank=around.rank,
        num_ranks=around.num_ranks,
        config={} if config is None else flat_config(config),
        versions=library_versions(),
        host=host_name(),
        permissions=loop_permissions(allow, autonomy),
    )
    if around.mode == "disabled":
        return Run(settings)
    if bus is not None:
        return Run(_with(settings, lambda: bus, keyring))
    if around.mode != "online":
        return Run(_recorded(settings, around, around.runs if runs is None else Path(runs)))
    return Run(_connected(settings, keyring, around.connection))


def _with(settings: RunSettings, connect: Callable[[], Bus], keyring: Keyring | None) -> RunSettings:
    return replace(settings, connect=connect, keyring=keyring)


def _connected(settings: RunSettings, keyring: Keyring | None, connection: Connection | None) -> RunSettings:
    if connection is None:
        logger.warning(
            "Holter is off: set KAFKA_BOOTSTRAP_SERVERS, or start the local stack with `holter up` in this folder"
        )
        return settings
    if keyring is None and connection.keyring is None:
        logger.warning("Holter only publishes, no action can be verified: %s", connection.keys_problem)
    bus = PipeBus(connection.kafka)
    return _with(settings, lambda: bus, keyring or connection.keyring)


def _recorded(settings: RunSettings, around: Surroundings, runs: Path) -> RunSettings:
    if settings.rank != 0:
        return settings
    folder = (runs / folder_name(settings.project) / folder_name(settings.run)).resolve()
    # not a warning, but it has to be seen where a script sets up no logging
    logger.warning("Holter keeps this run in %s; `holter sync` sends it later", folder)
    if around.mode == "offline":
        bus = RecorderBus(Recording(folder))
        return _with(settings, lambda: bus, None)
    signer = session_key()
    judging = RecorderBus(Recording(folder, signer, settings.clock_ms()))
    return _with(settings, lambda: judging, Keyring(keys={signer.key_id: signer}))
