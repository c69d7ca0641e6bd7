"""Jobs on a cluster that exists: submitted with their code and jars, found again by name, stopped with their state."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holter.infra.code_archive import write_code_archive
from holter.infra.errors import ComponentFailed, StackError
from holter.infra.flink_config import JOB_OPTIONS
from holter.infra.flink_distribution import find_flink, link_jars
from holter.infra.flink_rest import FlinkRest, Job
from holter.infra.flink_submit import Restore, Submission, find_job_script, submit
from holter.infra.jars import Jars
from holter.infra.jobs import JobName, WatchSettings, name_on_cluster, reader_arguments
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET

_STOP_DEADLINE_SECONDS = 300.0


@dataclass(frozen=True)
class Deployment:
    """One job for one cluster. Paths of ``keys_file`` and ``worker_python`` are those on the workers' machines."""

    job: JobName
    jobmanager: str
    bootstrap: str
    prefix: str
    issuer_epoch: int
    python: str
    worker_python: str
    keys_file: str | None = None
    policy: str = DEFAULT_PRESET
    recovery_weights: str = ""
    learned: str = ""
    checkpoint_interval_seconds: float = 10.0
    checkpoint_dir: str | None = None
    restore: Restore | None = None
    script: Path | None = None
    """Another program in the place of the job's own."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def arguments(self) -> list[str]:
        """Raises:
        StackError: ``watch`` is to sign and has no key.
        """
        if self.job != "watch":
            return reader_arguments(self.bootstrap, self.prefix)
        if not self.keys_file:
            raise StackError("watch signs what it decides: name a key file on the workers with --keys-file")
        settings = WatchSettings(
            self.bootstrap, self.prefix, self.keys_file, self.policy, self.recovery_weights, self.learned
        )
        return settings.arguments(self.issuer_epoch)

    def options(self) -> dict[str, str]:
        interval_ms = round(self.checkpoint_interval_seconds * 1000)
        options = {**JOB_OPTIONS, "execution.checkpointing.interval": f"{interval_ms} ms"}
        if self.checkpoint_dir:
            options["execution.checkpointing.dir"] = self.checkpoint_dir
        return options


def deploy(deployment: Deployment, jars: Jars) -> str:
    """Ships code and jars and returns the job's id. The client's log is kept where it fails.

    Raises:
        StackError: a job of this name already lives on the cluster, the cluster does not answer or refuses.
    """
    name = name_on_cluster(deployment.job, deployment.prefix)
    live = FlinkRest(deployment.jobmanager).live_job(name)
    if live is not None:
        raise StackError(
            f"{name} already runs on {deployment.jobmanager} as {live.job_id}: two would answer everything twice. "
            f"Stop it first with `holter jobs stop {deployment.job} --savepoint`"
        )
    folder = Path(tempfile.mkdtemp(prefix="holter-submit-"))
    try:
        job_id = submit(_submission(deployment, jars, folder), folder / "conf", folder / "flink-run.log")
    except ComponentFailed as failure:
        if deployment.restore is not None:
            failure.last_lines.append(f"It was to go on from {deployment.restore.path}: --fresh starts without.")
        raise
    shutil.rmtree(folder)
    return job_id


def find_job(rest: FlinkRest, name_or_id: str, prefix: str) -> Job:
    """A live job by its id, its name on the cluster, or the name of one of Holter's jobs.

    Raises:
        StackError: none lives.
    """
    wanted = {name_or_id, f"holter-{name_or_id}[{prefix}]"}
    for job in rest.jobs():
        if job.is_live and (job.name in wanted or job.job_id in wanted):
            return job
    raise StackError(f"no job {name_or_id!r} with prefix {prefix!r} runs on {rest.address}")


def stop_job(rest: FlinkRest, job: Job, savepoint_dir: str | None) -> str:
    """Stops a job; returns the path of its savepoint.

    Raises:
        StackError: no savepoint could be taken; the job goes on.
    """
    return rest.stop_with_savepoint(job.job_id, savepoint_dir, _STOP_DEADLINE_SECONDS)


def _submission(deployment: Deployment, jars: Jars, folder: Path) -> Submission:
    distribution = find_flink()
    link_jars(folder / "lib", distribution.jars)
    return Submission(
        jobmanager=deployment.jobmanager,
        script=deployment.script or find_job_script(deployment.job),
        arguments=[*deployment.arguments(), *(f"--jar={jar}" for jar in jars.flink)],
        options=deployment.options(),
        python=deployment.python,
        worker_python=deployment.worker_python,
        restore=deployment.restore,
        code=write_code_archive(folder / "holter.zip"),
        environment={
            **deployment.environ,
            "FLINK_HOME": str(distribution.home),
            "FLINK_LIB_DIR": str(folder / "lib"),
            "FLINK_LOG_DIR": str(folder),
            "PATH": os.pathsep.join([str(Path(deployment.python).parent), deployment.environ.get("PATH", "")]),
        },
    )
