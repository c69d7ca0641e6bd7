"""Statistics over windows of every run of a prefix, without a judgement.

Reads telemetry; the one stage is windows.
"""

from __future__ import annotations

from holter.jobs.arguments import common_arguments, job_parser
from holter.jobs.deployments import open_window_stats
from holter.jobs.job import Job, execute
from holter.schemas import topics

WINDOW_STATS = Job("window_stats", inputs=(topics.TELEMETRY,), outputs=(topics.WINDOWS, topics.DLQ))


def main() -> None:
    parser = job_parser("Statistics over windows of every run of a prefix.")
    execute(WINDOW_STATS, common_arguments(parser.parse_args()), open_window_stats)


if __name__ == "__main__":
    main()
