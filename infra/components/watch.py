"""The job that judges and acts, on the stack's cluster."""

from __future__ import annotations

import hashlib
import json
import time

from holter.infra.components.component import Change, Report, State, Status
from holter.infra.components.step import Step
from holter.infra.context import StackContext
from holter.infra.errors import ComponentFailed, StackError
from holter.infra.flink_cluster import cluster_environment
from holter.infra.flink_config import JOB_OPTIONS
from holter.infra.flink_rest import FlinkRest, Job
from holter.infra.flink_submit import Restore, Submission, find_job_script, submit
from holter.infra.jobs import WatchSettings, name_on_cluster, next_issuer_epoch
from holter.infra.restore_points import job_checkpoints, job_savepoints, newest_restore

_RUNNING_DEADLINE_SECONDS = 90.0
_STOP_DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.25


class Watch(Step):
    """Submitted when no job of its name lives, from the newest state it left; replaced when its settings changed.

    It ends with its cluster, and leaves its last checkpoint.
    """

    name = "watch"
    needs = ("jobmanager", "taskmanager", "topics")

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._job_name = name_on_cluster("watch", context.settings.prefix)

    def ensure(self, report: Report) -> Change:
        job = self._rest.live_job(self._job_name)
        if job is not None and self._is_ours(job):
            report("waiting for its tasks")
            self._await_running(job.job_id)
            return "unchanged"
        change: Change = "restarted" if self.context.state().watch_job_id else "started"
        restore = newest_restore(self.context.layout, self.name)
        if job is not None:
            report("stopping it to change its settings")
            restore = self._stop_to_replace(job)
        report(f"submitting it{' with its earlier state' if restore else ''}")
        self._submit(restore)
        return change

    def status(self) -> Status:
        try:
            job = self._rest.live_job(self._job_name)
        except StackError:
            return Status(self.name, "down", "no cluster")
        if job is None:
            return Status(self.name, "down", "no such job on the cluster")
        state: State = "up" if job.is_running else "starting"
        uptime = time.time() - job.start_ms / 1000
        return Status(self.name, state, f"{job.state.lower()}, job {job.job_id}", uptime_seconds=uptime)

    @property
    def _rest(self) -> FlinkRest:
        return FlinkRest(self.context.address("flink_rest"))

    def _settings(self) -> WatchSettings:
        context = self.context
        return WatchSettings(
            bootstrap=context.address("kafka"),
            prefix=context.settings.prefix,
            keys_file=str(context.layout.keys),
            policy=context.settings.policy,
        )

    def _fingerprint(self) -> str:
        content = [self._settings().arguments(issuer_epoch=0), self._options()]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def _is_ours(self, job: Job) -> bool:
        state = self.context.state()
        return job.job_id == state.watch_job_id and state.watch_fingerprint == self._fingerprint()

    def _stop_to_replace(self, job: Job) -> Restore | None:
        layout = self.context.layout
        try:
            folder = job_savepoints(layout, self.name).as_uri()
            return Restore(self._rest.stop_with_savepoint(job.job_id, folder, _STOP_DEADLINE_SECONDS), claim=False)
        except StackError:
            # One that cannot take a savepoint, because it fails again and again, still has its last checkpoint.
            self._rest.cancel(job.job_id)
            return newest_restore(layout, self.name)

    def _options(self) -> dict[str, str]:
        layout = self.context.layout
        interval_ms = round(self.context.settings.checkpoint_interval_seconds * 1000)
        return {
            **JOB_OPTIONS,
            "execution.checkpointing.interval": f"{interval_ms} ms",
            "execution.checkpointing.dir": job_checkpoints(layout, self.name).as_uri(),
            "execution.checkpointing.savepoint-dir": job_savepoints(layout, self.name).as_uri(),
        }

    def _submit(self, restore: Restore | None) -> None:
        context = self.context
        epoch = next_issuer_epoch(context.state().issuer_epoch)
        context.state_file.set(issuer_epoch=epoch)
        submission = Submission(
            jobmanager=context.address("flink_rest"),
            script=find_job_script(self.name),
            arguments=self._settings().arguments(epoch),
            options=self._options(),
            python=context.settings.python,
            worker_python=context.settings.python,
            restore=restore,
            environment=cluster_environment(context),
        )
        try:
            job_id = submit(submission, context.layout.config("client"), context.layout.log("flink-run"))
        except ComponentFailed as failure:
            if restore is not None:
                kept = job_checkpoints(context.layout, self.name)
                failure.last_lines.append(f"It was to go on from {restore.path}: move {kept} away to start without.")
            raise
        context.state_file.set(watch_job_id=job_id, watch_fingerprint=self._fingerprint())
        self._await_running(job_id)

    def _await_running(self, job_id: str) -> None:
        deadline = time.monotonic() + _RUNNING_DEADLINE_SECONDS
        while not self._runs_here(job_id):
            job = self._rest.job(job_id)
            if job is None or not job.is_live:
                raise self._failure(job_id, f"ended as {job.state if job else 'unknown'}")
            if time.monotonic() > deadline:
                raise self._failure(job_id, f"did not run within {_RUNNING_DEADLINE_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _runs_here(self, job_id: str) -> bool:
        # Until the JobManager notices that a TaskManager died, it takes that one's tasks for running.
        since_ms = self._rest.running_since_ms(job_id)
        worker = self.context.state().processes.get("taskmanager")
        return since_ms is not None and (worker is None or since_ms >= worker.created * 1000)

    def _failure(self, job_id: str, reason: str) -> ComponentFailed:
        reasons = self._rest.root_exception(job_id).strip().splitlines()
        return ComponentFailed(self.name, reason, self.context.layout.log("taskmanager"), reasons[:20])
