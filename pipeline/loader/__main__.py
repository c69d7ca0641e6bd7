"""``python -m holter.pipeline.loader``: loads every topic of a prefix into the store until SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holter.pipeline.bus import BusError
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings, kafka_settings_from_env
from holter.pipeline.loader.kafka_consumer import KafkaGroupConsumer
from holter.pipeline.loader.letter_box import LetterBox
from holter.pipeline.loader.loop import Loader, LoopSettings, MostlyUnreadable
from holter.pipeline.loader.sink import StoreSink
from holter.pipeline.store.dsn import DSN_VARIABLE, Dsn, parse_dsn
from holter.pipeline.store.errors import StoreError
from holter.schemas.topics import TopicNames

_logger = logging.getLogger("holter.pipeline.loader")


@dataclass(frozen=True)
class LoaderOptions:
    kafka: KafkaSettings
    dsn: Dsn = field(repr=False)
    loop: LoopSettings
    ready_file: Path | None = None
    instance: str | None = None


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    _quiet_libraries()
    try:
        return _run(_parse(arguments, environ))
    except (StoreError, BusError, MostlyUnreadable) as error:
        print(f"holter loader: {error}", file=sys.stderr)
        return 2


def _quiet_libraries() -> None:
    """What they warn of at every try of an outage is told once by the loader."""
    logging.getLogger("kafka").setLevel(logging.WARNING)
    for name in ("kafka.net.selector", "clickhouse_connect", "urllib3"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _run(options: LoaderOptions) -> int:
    consumer = KafkaGroupConsumer.connect(options.kafka, options.instance)
    letters = LetterBox(lambda: KafkaBus(options.kafka).publisher("holter-loader-dlq"))
    topics = TopicNames(options.kafka.prefix).by_full_name
    loader = Loader(consumer, StoreSink(options.dsn), letters, topics, options.loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loader.stop.set())
    _logger.info("loading from %s into %s", options.kafka.bootstrap, options.dsn)
    if options.ready_file is not None:
        options.ready_file.write_text(f"{os.getpid()}\n")
    try:
        loader.run()
    finally:
        loader.close()
    _logger.info("stopped: %s", loader.counts)
    return 0


def _parse(arguments: Sequence[str] | None, environ: Mapping[str, str]) -> LoaderOptions:
    parser = argparse.ArgumentParser(prog="python -m holter.pipeline.loader", description=__doc__)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka (default: KAFKA_BOOTSTRAP_SERVERS)")
    parser.add_argument("--dsn", help=f"the store (default: {DSN_VARIABLE}, which keeps the password out of ps)")
    parser.add_argument("--prefix", help="prefix of the topics (default: HOLTER_TOPIC_PREFIX)")
    parser.add_argument("--max-rows", type=int, default=LoopSettings.max_rows, help="rows of a batch")
    parser.add_argument("--max-age-seconds", type=float, default=LoopSettings.max_age_seconds, help="age of a batch")
    parser.add_argument("--ready-file", type=Path, metavar="FILE", help="gets the pid once Kafka was reached")
    parser.add_argument(
        "--instance",
        metavar="NAME",
        help="name of this loader, which no other of the prefix has: started again after a crash it then reads on at "
        "once; without one it waits until the broker gives the dead one up, 10 s",
    )
    found = parser.parse_args(arguments)
    kafka = kafka_settings_from_env(environ, found.bootstrap, found.prefix)
    dsn = found.dsn or environ.get(DSN_VARIABLE)
    if kafka is None:
        parser.error("no Kafka: give --bootstrap or set KAFKA_BOOTSTRAP_SERVERS")
    if not dsn:
        parser.error(f"no store: give --dsn or set {DSN_VARIABLE}")
    loop = LoopSettings(max_rows=found.max_rows, max_age_seconds=found.max_age_seconds)
    return LoaderOptions(kafka, parse_dsn(dsn), loop, found.ready_file, found.instance)


if __name__ == "__main__":
    sys.exit(main())
