"""Submits a Python job with the real ``flink run -d``, to the local cluster or to any other."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holter.infra.code_archive import package_folder
from holter.infra.errors import ComponentFailed, StackError
from holter.infra.flink_config import render_config
from holter.infra.flink_distribution import FlinkDistribution, find_flink
from holter.infra.log4j import console_logging
from holter.infra.logs import tail

_SUBMIT_TIMEOUT_SECONDS = 180
_JOB_ID = re.compile(r"Job has been submitted with JobID ([0-9a-f]{32})")
_CAUSE = re.compile(r"(Caused by: )?[\w.$]+(Error|Exception): \S|usage: |\S+: error: ")
_SYMPTOM = re.compile(r"CompletionException|Py4JJavaError|ProgramAbortException|Python process exits")
_MAX_REASONS = 6
# The client's two JVMs live for seconds: compiling for peak speed would cost more than it gains.
_CLIENT_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m"


@dataclass(frozen=True)
class Restore:
    """A checkpoint or savepoint to start from. Flink deletes a claimed one when it needs it no more."""

    path: str
    claim: bool


@dataclass(frozen=True)
class Submission:
    """One job for one cluster.

    ``options`` are those of the job (``-D``). ``code`` is an archive for workers that lack the package.
    """

    jobmanager: str
    script: Path
    arguments: Sequence[str]
    options: Mapping[str, str]
    python: str
    worker_python: str
    restore: Restore | None = None
    code: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def find_job_script(name: str) -> Path:
    """Raises:
    StackError: there is no such job.
    """
    script = package_folder("jobs") / f"{name}.py"
    if not script.exists():
        raise StackError(f"holter.jobs has no job {name!r}")
    return script


def submit(submission: Submission, config_folder: Path, log: Path) -> str:
    """Returns the job's id once the cluster has taken it; it may not run yet.

    Raises:
        ComponentFailed: the client failed; its output is in ``log``.
    """
    distribution = find_flink()
    write_client_config(distribution, submission, config_folder)
    command = flink_command(distribution, submission)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        begun = output.tell()
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_client_environment(submission, config_folder),
                timeout=_SUBMIT_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _failure(submission, f"was not taken within {_SUBMIT_TIMEOUT_SECONDS} s", log, begun) from None
    found = _JOB_ID.search(log.read_bytes()[begun:].decode(errors="replace"))
    if done.returncode or found is None:
        raise _failure(submission, "was not taken by the cluster", log, begun)
    return found.group(1)


def flink_command(distribution: FlinkDistribution, submission: Submission) -> list[str]:
    """The command line of ``flink run``."""
    restore: list[str] = []
    if submission.restore is not None:
        restore = ["-s", submission.restore.path, "-claimMode", "CLAIM" if submission.restore.claim else "NO_CLAIM"]
    return [
        str(distribution.home / "bin" / "flink"),
        *("run", "-d", "-m", submission.jobmanager),
        *(f"-D{key}={value}" for key, value in submission.options.items()),
        *restore,
        *("-pyclientexec", submission.python, "-pyexec", submission.worker_python),
        *(("-pyfs", str(submission.code)) if submission.code else ()),
        *("-py", str(submission.script), *submission.arguments),
    ]


def _client_environment(submission: Submission, config_folder: Path) -> dict[str, str]:
    return {
        **submission.environment,
        "FLINK_CONF_DIR": str(config_folder),
        "JDK_JAVA_OPTIONS": " ".join(
            filter(None, [_CLIENT_JVM_OPTIONS, submission.environment.get("JDK_JAVA_OPTIONS")])
        ),
    }


def write_client_config(distribution: FlinkDistribution, submission: Submission, folder: Path) -> None:
    """The configuration folder of the client: its JVM's options, and a log that goes to its standard output."""
    host, _, port = submission.jobmanager.rpartition(":")
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "rest.address": host,
        "rest.port": port,
        "env.java.opts.all": " ".join(distribution.jvm_options),
    }
    (folder / "config.yaml").write_text(render_config(config))
    (folder / "log4j-cli.properties").write_text(console_logging("WARN"))


def reasons(output: str) -> list[str]:
    """What a person needs of a client's output: the causes, without the stack traces.

    >>> reasons("x.FlinkException: a\\n  at b\\nCaused by: x.MissingException: topic t\\n")
    ['x.FlinkException: a', 'Caused by: x.MissingException: topic t']
    """
    causes = [line for line in output.splitlines() if _CAUSE.match(line) and not _SYMPTOM.search(line)]
    return list(dict.fromkeys(causes))[-_MAX_REASONS:]


def _failure(submission: Submission, reason: str, log: Path, begun: int) -> ComponentFailed:
    output = log.read_bytes()[begun:].decode(errors="replace")
    return ComponentFailed(f"job {submission.script.stem}", reason, log, reasons(output) or tail(log, 25, begun))
