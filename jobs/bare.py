"""What a keyed Python function on Flink costs by itself: one call for each record, a count for each key, no state.

For ``make bench`` only, in the place of ``window_stats``: source, keying in Java, thread mode and sink are those of
Holter's jobs, without the gathering that they add.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pyflink.datastream import KeyedProcessFunction

from holter.jobs.arguments import common_arguments, job_parser
from holter.jobs.flink import FRAME_TYPE, environment, keyed_source, sink_to_topics
from holter.jobs.frames import build_output
from holter.schemas.topics import TELEMETRY, WINDOWS, TopicNames

_TOLD_EVERY = 100


class Bare(KeyedProcessFunction):  # type: ignore[misc]
    """Says of every hundredth record of a key that it was there, by an empty value."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def process_element(self, value: bytes, ctx: KeyedProcessFunction.Context) -> Iterable[bytes]:
        key = ctx.get_current_key()
        self._counts[key] += 1
        if not self._counts[key] % _TOLD_EVERY:
            yield build_output(0, key.encode(), b"")


def main() -> None:
    arguments = common_arguments(job_parser("A bare keyed Python function.").parse_args())
    names = TopicNames(arguments.prefix)
    env = environment()
    env.add_jars(*(jar.resolve().as_uri() for jar in arguments.jars))
    frames = keyed_source(
        env,
        bootstrap=arguments.bootstrap,
        topics=[names.of(TELEMETRY)],
        group=arguments.group("bare"),
        offsets="earliest",
        gathers=False,
    )
    outputs = frames.process(Bare(), output_type=FRAME_TYPE).name("bare")
    sink_to_topics(outputs, bootstrap=arguments.bootstrap, topics=[names.of(WINDOWS)])
    env.execute(arguments.job_name("window_stats"))


if __name__ == "__main__":
    main()
