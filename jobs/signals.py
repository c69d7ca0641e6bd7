"""Judges every run of a prefix and leaves it alone.

Reads telemetry; the one stage is signals.
"""

from __future__ import annotations

from holter.jobs.arguments import common_arguments, job_parser
from holter.jobs.deployments import open_signals
from holter.jobs.job import Job, execute
from holter.pipeline.core import run_operator

SIGNALS = Job("signals", inputs=run_operator.SIGNALS.sources, outputs=run_operator.SIGNALS.outputs)


def main() -> None:
    parser = job_parser("Judges every run of a prefix and leaves it alone.")
    execute(SIGNALS, common_arguments(parser.parse_args()), open_signals)


if __name__ == "__main__":
    main()
