"""``python -m holter.pipeline.local``: the recorder of a trainer, which starts it and ends it by its standard input."""

from __future__ import annotations

import os
import signal
import sys
import time

from holter.pipeline.local.recorder import Recorder


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer decides when it ends
    try:
        Recorder(sys.stdin.buffer, sys.stdout.buffer, lambda: time.time_ns() // 1_000_000).run()
    finally:
        os._exit(0)  # a standard output that nobody reads any more must not be flushed


if __name__ == "__main__":
    main()
