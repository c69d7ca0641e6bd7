"""Statistics over windows of every run of a prefix, without a judgement.

Reads telemetry; the one stage is windows.
"""

from __future__ import annotations

from holter.jobs.arguments import common_arguments, job_parser
from holter.jobs.deployments import open_window_stats
from holter.jobs.job import Job, execute
from holter.pipeline.core import run_operator

WINDOW_STATS = Job("window_stats", inputs=run_operator.WINDOW_STATS.sources, outputs=run_operator.WINDOW_STATS.outputs)


def main() -> None:
    parser = job_parser("Statistics over windows of every run of a prefix.")
    execute(WINDOW_STATS, common_arguments(parser.parse_args()), open_window_stats)


if __name__ == "__main__":
    main()
