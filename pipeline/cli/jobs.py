"""``holter jobs``: Flink jobs on a cluster that exists; the local stack's where no other is named."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holter.infra.deployment import Deployment, deploy, find_job, stop_job
from holter.infra.flink_rest import FlinkRest, Job
from holter.infra.flink_submit import Restore
from holter.infra.jars import Jars, find_jars
from holter.infra.jobs import JOB_NAMES, JobName, job_and_prefix, next_issuer_epoch
from holter.infra.restore_points import job_checkpoints, job_savepoints, kept_name, newest_restore
from holter.infra.settings import HomeLayout, home_from_env
from holter.infra.state import StackState, StateFile
from holter.pipeline.cli.policy_file import POLICY_HELP, POLICY_METAVAR, known_policy
from holter.pipeline.cli.stack import reported_failures
from holter.pipeline.cli.weights import known_model, known_weights
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET
from holter.pipeline.core.detect.learned import LearnedModel
from holter.pipeline.core.recovery import RecoveryWeights
from holter.schemas.signed import KEYS_FILE_VARIABLE
from holter.schemas.topics import PREFIX_VARIABLE

app = typer.Typer(no_args_is_help=True, help="Flink jobs on a cluster that exists.")

JobManagerOption = Annotated[
    str | None,
    typer.Option("--jobmanager", metavar="HOST:PORT", help="Flink's REST address; default: the local stack's."),
]
PrefixOption = Annotated[str | None, typer.Option("--prefix", help="The tenant's topic prefix. [HOLTER_TOPIC_PREFIX]")]


@app.command("submit")
def submit_job(
    name: Annotated[JobName, typer.Argument(help="watch acts; window_stats and signals only read.")],
    jobmanager: JobManagerOption = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Kafka, as the workers reach it. [KAFKA_BOOTSTRAP_SERVERS]")
    ] = None,
    prefix: PrefixOption = None,
    keys_file: Annotated[
        str | None, typer.Option(help="Key file on the workers' machines, for watch. [HOLTER_KEYS_FILE]")
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar=POLICY_METAVAR, callback=known_policy, help=f"{POLICY_HELP}; for watch.")
    ] = DEFAULT_PRESET,
    recovery_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Coefficients that `holter fit --out` wrote; for watch.")
    ] = None,
    learned: Annotated[
        str | None,
        typer.Option(
            metavar="shipped|FILE", help="Also ask the learned detector, of `holter fit --detector`; for watch."
        ),
    ] = None,
    from_savepoint: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Savepoint or retained checkpoint to go on from; default: the local stack's newest."
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start without the state that the job left.")] = False,
    checkpoint_dir: Annotated[
        str | None, typer.Option(metavar="URI", help="Where checkpoints go; default: the cluster's.")
    ] = None,
    worker_python: Annotated[
        str, typer.Option(metavar="PATH", help="Python with Holter's libraries, on the workers' machines.")
    ] = sys.executable,
) -> None:
    """Submit a job with its code and jars, and print its id.

    A second job of one name and prefix is refused. The cluster needs Flink 2.3 with flink-python in its lib folder
    and `classloader.parent-first-patterns.additional: "pemja."`, or else one TaskManager a job.

    Example: holter jobs submit watch --jobmanager flink:8081 --bootstrap kafka:9092 --keys-file /etc/holter/keys.json
    """
    console = Console(stderr=True)
    with reported_failures(console):
        state = _stack_state()
        address, tenant = _jobmanager(jobmanager, state), _prefix(prefix, state)
        kept = kept_name(name, tenant, state.prefix) if address == state.flink_rest else None
        deployment = Deployment(
            job=name,
            jobmanager=address,
            bootstrap=_bootstrap(bootstrap, state),
            prefix=tenant,
            issuer_epoch=next_issuer_epoch(state.issuer_epoch),
            python=sys.executable,
            worker_python=worker_python,
            keys_file=keys_file or os.environ.get(KEYS_FILE_VARIABLE) or state.keys_file or None,
            policy=policy,
            recovery_weights=_as_json(known_weights(recovery_weights, "--recovery-weights"))
            if recovery_weights
            else "",
            learned=_as_json(model) if (model := known_model(learned)) else "",
            checkpoint_dir=checkpoint_dir or (job_checkpoints(_layout(), kept).as_uri() if kept else None),
            restore=_restore(kept, from_savepoint, fresh),
            environ=os.environ,
        )
        console.print(_beginning(deployment, kept, fresh), highlight=False, soft_wrap=True)
        with console.status(f"submitting {name} to {deployment.jobmanager}"):
            print(deploy(deployment, _built_jars(console)))


@app.command("list")
def list_jobs(
    jobmanager: JobManagerOption = None,
    all_jobs: Annotated[bool, typer.Option("--all", help="Ended jobs too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array instead.")] = False,
) -> None:
    """List the jobs of a cluster, the newest first.

    Example: holter jobs list --jobmanager flink:8081
    """
    with reported_failures(Console(stderr=True)):
        rest = FlinkRest(_jobmanager(jobmanager, _stack_state()))
        jobs = [job for job in rest.jobs() if all_jobs or job.is_live]
        if as_json:
            print(json.dumps([asdict(job) for job in jobs]))
        else:
            Console().print(_job_table(jobs) if jobs else f"No job runs on {rest.address}.")


@app.command("stop")
def stop(
    name: Annotated[str, typer.Argument(metavar="NAME|JOB_ID", help=f"{', '.join(JOB_NAMES)}, or a job's id.")],
    jobmanager: JobManagerOption = None,
    prefix: PrefixOption = None,
    savepoint: Annotated[
        bool, typer.Option("--savepoint", help="Keep its state in a savepoint; prints its path.")
    ] = False,
    to: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the savepoint goes; default: the cluster's.")
    ] = None,
) -> None:
    """Stop a job, with a savepoint or, without, at its last checkpoint.

    Example: holter jobs stop watch --savepoint --to s3://bucket/savepoints
    """
    with reported_failures(Console(stderr=True)):
        state = _stack_state()
        rest = FlinkRest(_jobmanager(jobmanager, state))
        job = find_job(rest, name, _prefix(prefix, state))
        if savepoint or to:
            print(stop_job(rest, job, to or _stack_savepoints(rest, state, job)))
        else:
            rest.cancel(job.job_id)
            Console(stderr=True).print(f"{job.name} was told to end; its last checkpoint stays.", highlight=False)


def _as_json(coefficients: RecoveryWeights | LearnedModel) -> str:
    return msgspec.json.encode(coefficients).decode()


def _layout() -> HomeLayout:
    return HomeLayout(home_from_env(os.environ))


def _stack_state() -> StackState:
    return StateFile(_layout().state).read()


def _restore(kept: str | None, from_savepoint: str | None, fresh: bool) -> Restore | None:
    """What the job is to go on from; ``kept`` is the name under which the local stack keeps it, if it does."""
    if fresh and from_savepoint:
        raise typer.BadParameter("--fresh starts without state, --from-savepoint with one: give one of both")
    if from_savepoint:
        return Restore(from_savepoint, claim=False)
    return newest_restore(_layout(), kept) if kept and not fresh else None


def _beginning(deployment: Deployment, kept: str | None, fresh: bool) -> str:
    if deployment.restore is not None:
        return f"{deployment.job} goes on from {deployment.restore.path}"
    why = "--fresh" if fresh else "none is kept here" if kept else "--from-savepoint names none"
    return f"{deployment.job} starts without earlier state ({why})"


def _jobmanager(given: str | None, state: StackState) -> str:
    address = given or state.flink_rest
    if not address:
        raise typer.BadParameter("no local stack is known here: name a cluster with --jobmanager HOST:PORT")
    return address.removeprefix("http://").rstrip("/")


def _bootstrap(given: str | None, state: StackState) -> str:
    bootstrap = given or os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or state.kafka_bootstrap
    if not bootstrap:
        raise typer.BadParameter("name a Kafka: --bootstrap HOST:PORT or KAFKA_BOOTSTRAP_SERVERS")
    return bootstrap


def _prefix(given: str | None, state: StackState) -> str:
    return os.environ.get(PREFIX_VARIABLE, state.prefix) if given is None else given


def _stack_savepoints(rest: FlinkRest, state: StackState, job: Job) -> str | None:
    """On the local stack savepoints go where the next ``up`` and ``submit`` look for them."""
    named = job_and_prefix(job.name)
    if rest.address != state.flink_rest or named is None:
        return None
    return job_savepoints(_layout(), kept_name(*named, state.prefix)).as_uri()


def _built_jars(console: Console) -> Jars:
    jars = find_jars()
    if not jars.are_current():
        console.print("Maven fetches and builds the jars (once, about 30 s)")
        jars.build(os.environ, jars.project / "target" / "maven.log")
    return jars


def _job_table(jobs: list[Job]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True)
    for heading in ("job", "state", "tasks", "since"):
        table.add_column(heading, overflow="fold")
    for job in jobs:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.start_ms / 1000))
        tasks = f"{job.num_running_tasks}/{job.num_tasks}"
        table.add_row(job.job_id, job.name, job.state.lower(), tasks, since)
    return table
