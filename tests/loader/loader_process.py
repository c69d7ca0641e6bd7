"""A loader in a process of its own over a log in a file, killed at a chosen commit: after the insert, before the note.

Usage: python -m tests.loader.loader_process LOG COMMITTED POLL_SIZE MAX_ROWS KILL_AT_COMMIT, with HOLTER_STORE_DSN.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from holter.pipeline.loader.batch import Partition
from holter.pipeline.loader.letter_box import LetterBox
from holter.pipeline.loader.loop import Loader, LoopSettings
from holter.pipeline.loader.sink import StoreSink
from holter.pipeline.store.dsn import DSN_VARIABLE, parse_dsn
from holter.schemas.topics import BY_NAME
from tests.loader.memory_log import LogConsumer, MemoryLog, no_publisher


class KilledConsumer(LogConsumer):
    def __init__(self, log: MemoryLog, poll_size: int, committed: Path, kill_at_commit: int) -> None:
        super().__init__(log, poll_size)
        self._file = committed
        self._left = kill_at_commit
        self._noted = dict(log.committed)

    def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._noted.update(next_offsets)
        self._file.write_bytes(pickle.dumps(self._noted))


def main(log_file: str, committed_file: str, poll_size: str, max_rows: str, kill_at_commit: str) -> None:
    log = MemoryLog()
    log.messages = pickle.loads(Path(log_file).read_bytes())
    committed = Path(committed_file)
    if committed.exists():
        log.committed = pickle.loads(committed.read_bytes())
    consumer = KilledConsumer(log, int(poll_size), committed, int(kill_at_commit))
    settings = LoopSettings(max_rows=int(max_rows), max_age_seconds=3600, poll_ms=0)
    sink = StoreSink(parse_dsn(os.environ[DSN_VARIABLE]))
    loader = Loader(consumer, sink, LetterBox(no_publisher), BY_NAME, settings)
    while consumer.has_more:
        loader.step()
    loader.flush()
    loader.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
