"""Logs of a failed job and of two that succeeded: ``python -m holter.producers.examples.failed_job_logs logs``

and then ``holter diagnose logs/failed --good logs/good1 --good logs/good2``. One node's disk is full at the last
checkpoint; the others then lose their peer, and every job says harmless errors as well.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

NODES = [f"node-{number:02d}" for number in range(16)]
BAD_NODE, STEPS = "node-11", 60


def healthy(node: str, rng: random.Random) -> Iterator[str]:
    yield f"INFO NET/IB : Using mlx5_{rng.randrange(8)}:1/RoCE, node {node}"
    for step in range(1, STEPS + 1):
        yield f"INFO step {step} | loss {3.0 / step + rng.random():.3f} | {rng.uniform(400, 440):.1f} ms"
        yield f"DEBUG all-reduce of {rng.randrange(40, 60)} buckets took {rng.uniform(30, 50):.2f} ms"
        if rng.random() < 0.1:
            yield f"ERROR metrics exporter: push to 10.0.{rng.randrange(256)}.7 timed out, buffer kept"
        if step % 20 == 0:
            yield f"INFO checkpoint write to /scratch/run7/step-{step}.pt finished after {rng.uniform(8, 12):.1f} s"


def failed(node: str, rng: random.Random) -> Iterator[str]:
    for line in healthy(node, rng):
        if f"step-{STEPS}.pt" in line:
            break
        yield line
    if node == BAD_NODE:
        yield "WARNING /scratch is 100 % full"
        yield f"ERROR checkpoint write to /scratch/run7/step-{STEPS}.pt failed after {rng.uniform(0, 1):.1f} s"
        yield f"ERROR OSError: [Errno 28] No space left on device: '/scratch/run7/step-{STEPS}.pt'"
    elif rng.random() < 0.9:
        yield f"ERROR socketProgress: Connection closed by remote peer 10.0.0.11<{rng.randrange(32000, 60000)}>"
    yield f"WARNING Sending process {rng.randrange(1000, 9999)} closing signal SIGTERM"


def main(folder: Path) -> None:
    rng = random.Random(0)
    for job, said in (("failed", failed), ("good1", healthy), ("good2", healthy)):
        (folder / job).mkdir(parents=True, exist_ok=True)
        for node in NODES:
            lines = (f"2026-03-01T10:{n // 60:02d}:{n % 60:02d}Z {line}\n" for n, line in enumerate(said(node, rng)))
            (folder / job / f"{node}.log").write_text("".join(lines), encoding="utf-8")
    print(f"now: holter diagnose {folder}/failed --good {folder}/good1 --good {folder}/good2")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "logs"))
