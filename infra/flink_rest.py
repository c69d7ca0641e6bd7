"""The few calls of Flink's REST interface that Holter needs."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from holter.infra.errors import StackError

_POLL_SECONDS = 0.2
_LIVE_STATES = frozenset({"INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "FAILING", "CANCELLING", "RECONCILING"})


class FlinkUnreachable(StackError):
    """Nothing answers at the address."""


class FlinkRefused(StackError):
    """The cluster answered with an error."""


@dataclass(frozen=True)
class Job:
    """One job of a cluster."""

    job_id: str
    name: str
    state: str
    start_ms: int
    num_tasks: int
    num_running_tasks: int

    @property
    def is_live(self) -> bool:
        return self.state in _LIVE_STATES

    @property
    def is_running(self) -> bool:
        """Whether every task runs, not only the job."""
        return self.state == "RUNNING" and self.num_tasks > 0 and self.num_running_tasks == self.num_tasks

    @property
    def is_starting(self) -> bool:
        """Whether it was started and some task does not run yet, such as one that restores or starts Python."""
        return self.state == "RUNNING" and not self.is_running


@dataclass(frozen=True)
class FlinkRest:
    """A client for one JobManager, ``HOST:PORT``; holds no connection."""

    address: str
    timeout_seconds: float = 10.0

    def version(self) -> str:
        return str(self._call("/config")["flink-version"])

    def taskmanager_data_ports(self) -> set[int]:
        return {int(worker["dataPort"]) for worker in self._call("/taskmanagers")["taskmanagers"]}

    def jobs(self) -> list[Job]:
        """All jobs the cluster remembers, the newest first."""
        jobs = [_job(answer) for answer in self._call("/jobs/overview")["jobs"]]
        return sorted(jobs, key=lambda job: job.start_ms, reverse=True)

    def job(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs() if job.job_id == job_id), None)

    def live_job(self, name: str) -> Job | None:
        """The job of that name that runs or tries to."""
        return next((job for job in self.jobs() if job.name == name and job.is_live), None)

    def running_since_ms(self, job_id: str) -> int | None:
        """Since when every task runs; None while one does not."""
        tasks = self._call(f"/jobs/{job_id}")["vertices"]
        if not tasks or any(task["status"] != "RUNNING" for task in tasks):
            return None
        return min(int(task["start-time"]) for task in tasks)

    def restored_from(self, job_id: str) -> str | None:
        """The checkpoint or savepoint a job started from, None where it started without."""
        restored = self._call(f"/jobs/{job_id}/checkpoints")["latest"]["restored"]
        return str(restored["external_path"]) if restored else None

    def root_exception(self, job_id: str) -> str:
        """The newest failure of a job, empty where it had none."""
        entries = self._call(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
        return str(entries[0]["stacktrace"]) if entries else ""

    def cancel(self, job_id: str) -> None:
        self._call(f"/jobs/{job_id}?mode=cancel", method="PATCH")

    def stop_with_savepoint(self, job_id: str, directory: str | None, deadline_seconds: float) -> str:
        """Stops a job and returns where its savepoint lies. One whose tasks are still starting is waited for.

        Raises:
            FlinkRefused: the savepoint failed; the job goes on as before.
        """
        deadline = time.monotonic() + deadline_seconds
        while (job := self.job(job_id)) and job.is_starting and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        body = {"targetDirectory": directory, "drain": False}
        trigger = self._call(f"/jobs/{job_id}/stop", method="POST", body=body)["request-id"]
        while time.monotonic() < deadline:
            answer = self._call(f"/jobs/{job_id}/savepoints/{trigger}")
            if answer["status"]["id"] == "COMPLETED":
                return _savepoint_location(answer["operation"])
            time.sleep(_POLL_SECONDS)
        raise FlinkRefused(f"the savepoint of {job_id} was not there within {deadline_seconds:.0f} s")

    def _call(self, path: str, method: str = "GET", body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_seconds) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise FlinkRefused(f"Flink at {self.address} refused {path}: {_first_error(error)}") from None
        except (OSError, ValueError) as error:
            raise FlinkUnreachable(f"no Flink answers at {self.address}: {error}") from None


def _job(answer: dict[str, Any]) -> Job:
    tasks = answer["tasks"]
    return Job(answer["jid"], answer["name"], answer["state"], answer["start-time"], tasks["total"], tasks["running"])


def _savepoint_location(operation: dict[str, Any]) -> str:
    if "failure-cause" in operation:
        raise FlinkRefused(f"the savepoint failed: {_first_line(operation['failure-cause']['stack-trace'])}")
    return str(operation["location"])


def _first_error(error: urllib.error.HTTPError) -> str:
    try:
        return _first_line(str(json.loads(error.read())["errors"][0]))
    except (ValueError, KeyError, IndexError, OSError):
        return f"HTTP {error.code}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"
