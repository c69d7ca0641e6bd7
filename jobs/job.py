"""From a job's description and its command line to a running job graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyflink.datastream import StreamExecutionEnvironment

from holter.jobs.arguments import JobArguments
from holter.jobs.flink import FRAME_TYPE, environment, keyed_source, sink_to_topics
from holter.jobs.keyed import KeyedOperator, OperatorSpec, Restore
from holter.schemas.topics import DLQ, Topic, TopicNames


@dataclass(frozen=True)
class Job:
    """What a job reads and writes. ``outputs`` holds the DLQ; operators name outputs by their index in it.

    Checkpoints and savepoints refer to the order of ``inputs``: it may only grow at its end.
    """

    name: str
    inputs: tuple[Topic, ...]
    outputs: tuple[Topic, ...]

    def spec(self, prefix: str, open_operators: Callable[[], Restore]) -> OperatorSpec:
        names = TopicNames(prefix)
        return OperatorSpec(
            open=open_operators,
            sources={names.of(topic): topic.name for topic in self.inputs},
            dead_letters=self.outputs.index(DLQ),
            reader=self.name,
        )


def build(job: Job, arguments: JobArguments, open_operators: Callable[[], Restore]) -> StreamExecutionEnvironment:
    """The job graph, ready to be executed."""
    names = TopicNames(arguments.prefix)
    env = environment(checkpoint_interval_ms=arguments.checkpoint_interval_ms)
    if arguments.jars:
        env.add_jars(*(jar.resolve().as_uri() for jar in arguments.jars))
    frames = keyed_source(
        env,
        bootstrap=arguments.bootstrap,
        topics=[names.of(topic) for topic in job.inputs],
        group=arguments.group(job.name),
        offsets=arguments.offsets,
    )
    operator = KeyedOperator(job.spec(arguments.prefix, open_operators))
    outputs = frames.process(operator, output_type=FRAME_TYPE).name(job.name).uid("operator")
    sink_to_topics(outputs, bootstrap=arguments.bootstrap, topics=[names.of(topic) for topic in job.outputs])
    return env


def execute(job: Job, arguments: JobArguments, open_operators: Callable[[], Restore]) -> None:
    """Submits the job; returns at once under ``flink run -d``, else when the job ends."""
    build(job, arguments, open_operators).execute(arguments.job_name(job.name))
