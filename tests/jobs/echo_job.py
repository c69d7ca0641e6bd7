"""Runs the echo operator on a Flink mini cluster in this process until it is killed.

The repository must be on PYTHONPATH, where the workers find the operator.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyflink.common import Configuration

from holter.jobs.flink import FRAME_TYPE, environment, keyed_source, sink_to_topics
from holter.jobs.keyed import KeyedOperator, OperatorSpec
from tests.jobs.echo import DEAD_LETTERS, open_echoes

CHECKPOINT_INTERVAL_MS = 300
PARALLELISM = {"thread": 2, "process": 1}  # two of one interpreter are worth a test; two worker processes are slow


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--mode", choices=("thread", "process"), required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--recover-from", default="")
    arguments = parser.parse_args()
    mode = arguments.mode
    env = environment(checkpoint_interval_ms=CHECKPOINT_INTERVAL_MS, mode=mode)
    env.set_parallelism(PARALLELISM[mode])
    env.configure(_configuration(arguments.checkpoints, arguments.recover_from))
    sources = {f"{mode}-a": "a", f"{mode}-b": "b"}
    frames = keyed_source(env, bootstrap=arguments.bootstrap, topics=list(sources), group=mode, offsets="earliest")
    spec = OperatorSpec(open_echoes, sources, dead_letters=DEAD_LETTERS, reader="echo")
    outputs = frames.process(KeyedOperator(spec), output_type=FRAME_TYPE).name("echo").uid("echo")
    sink_to_topics(outputs, bootstrap=arguments.bootstrap, topics=(f"{mode}-echoes", f"{mode}-dead"))
    env.execute("echo")


def _configuration(checkpoints: Path, recover_from: str) -> Configuration:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", checkpoints.as_uri())
    configuration.set_string("restart-strategy.type", "none")  # a broken function must end the job, not hide in retries
    configuration.set_string("python.executable", sys.executable)
    if recover_from:
        configuration.set_string("execution.state-recovery.path", recover_from)
    return configuration


if __name__ == "__main__":
    main()
