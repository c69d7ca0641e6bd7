"""A bare Kafka echo in a process of its own: what comes on one topic goes out on another, with kafka-python alone.

Run by the latency bench as ``python -m holter.infra.bench.echo BOOTSTRAP PREFIX``; prints ``ready`` once it reads.
"""

from __future__ import annotations

import sys

from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.bus.settings import KafkaSettings
from holter.schemas.topics import RANKS, WINDOWS


def main() -> None:
    bootstrap, prefix = sys.argv[1:3]
    bus = KafkaBus(KafkaSettings(bootstrap, prefix))
    publisher = bus.publisher("bench-echo")
    reader = bus.reader([RANKS], "latest", "bench-echo")
    print("ready", flush=True)
    while True:
        for message in reader.poll(0.5):
            publisher.publish(WINDOWS, message.key or b"", message.value or b"")


if __name__ == "__main__":
    main()
