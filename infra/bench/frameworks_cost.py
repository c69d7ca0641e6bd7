"""What Holter adds to a step in each loop that people have, and to the memory of its process.

Each framework is measured in a process of its own: steps with and without Holter in turns of a few (see
:mod:`~holter.infra.bench.framework_process`). CPU time of the training thread is compared (of JAX and Keras, which
compute on other threads, that of the process), since the clock also tells what else the machine does.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

from holter.infra.bench.figures import Figure
from holter.infra.bench.framework_process import FRAMEWORKS
from holter.infra.bench.paired import Differences, differences
from holter.infra.errors import StackError

_USUAL_CHECKPOINT_EVERY = 50
_NUM_MEMORY_RUNS = 3
_WALL, _CPU, _OWN = range(3)
_CHOSEN = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "KERAS_BACKEND": "jax",
}


def measure(environ: dict[str, str], num_blocks: int, names: Iterable[str] = tuple(FRAMEWORKS)) -> list[Figure]:
    """Of each framework its step and its memory.

    Raises:
        StackError: a training failed, with its last words.
    """
    return [
        figure
        for name in names
        for figure in (*step_figures(name, environ, num_blocks), *memory_figures(name, environ))
    ]


def step_figures(name: str, environ: dict[str, str], num_blocks: int) -> list[Figure]:
    """The paired difference, and Holter's own time in the same steps.

    Raises:
        StackError: as :func:`measure`.
    """
    blocks = _said(name, environ, "cost", str(num_blocks))
    saving_share = FRAMEWORKS[name].saving_steps / _USUAL_CHECKPOINT_EVERY
    cpu, clock = (_Compared(blocks, kind, saving_share) for kind in (_CPU, _WALL))
    note = (
        f"{cpu.interval} of {cpu.plain_ms:.0f} ms CPU; by the clock {clock.percent:.2f} {clock.interval} of "
        f"{clock.plain_ms:.0f} ms; {len(blocks)} pairs of turns"
    )
    own_aim: float | None = 0.5
    own_note = "CPU inside Holter's calls on the training thread"
    if FRAMEWORKS[name].steps:
        own_note, own_aim = f"{own_note}, with the clipping that it does for the loop", None
    return [
        Figure(f"{name}_step_overhead_percent", cpu.percent, "%", 1.0, note=note),
        Figure(f"{name}_own_ms_per_step", _own_ms(blocks, saving_share), "ms", own_aim, note=own_note),
    ]


def memory_figures(name: str, environ: dict[str, str]) -> list[Figure]:
    """Without what a loop of its own keeps to go back to, which is what it asked for, and with it.

    Raises:
        StackError: as :func:`measure`.
    """
    plain, worn = (_peak_mib(name, environ, side) for side in ("plain", "worn"))
    note = f"peak of the process, over {plain:,.0f} MiB, medians of {_NUM_MEMORY_RUNS}"
    if not FRAMEWORKS[name].applies:
        note += "; a copy of a state of 15 MB for checkpoints is in it"
        return [Figure(f"{name}_memory_mib", worn - plain, "MiB", 30.0, note=note)]
    keeping = _peak_mib(name, environ, "keeping")
    kept_note = "the same with the states of 20 MB that it keeps: the newest two and the newest healthy one"
    return [
        Figure(f"{name}_memory_mib", worn - plain, "MiB", 30.0, note=f"{note}; nothing is kept to go back to"),
        Figure(f"{name}_memory_keeping_mib", keeping - plain, "MiB", note=kept_note),
    ]


class _Compared:
    """Of one kind of seconds, steps with Holter against those without."""

    def __init__(self, blocks: Sequence[dict[str, Any]], kind: int, saving_share: float) -> None:
        worn, plain = ([1000 * block[side][kind] for block in blocks] for side in ("worn", "plain"))
        self.plain_ms: float = statistics.median(plain)
        self._more = differences(worn, plain, [block["saves"] for block in blocks])
        self._saving_share = saving_share

    @property
    def percent(self) -> float:
        return 100 * self._more.per_step(self._saving_share) / self.plain_ms

    @property
    def interval(self) -> str:
        low, high = (100 * each / self.plain_ms for each in self._more.interval(self._saving_share))
        return f"[{low:.2f}, {high:.2f}] (95 %)"


def _peak_mib(name: str, environ: dict[str, str], side: str) -> float:
    """The same training peaks up to 15 MiB apart, by how its threads meet."""
    peaks = [_said(name, environ, "memory", side)["peak_mib"] for _ in range(_NUM_MEMORY_RUNS)]
    return float(statistics.median(peaks))


def _own_ms(blocks: Sequence[dict[str, Any]], saving_share: float) -> float:
    by_kind: dict[bool, list[float]] = {False: [], True: []}
    for block in blocks:
        by_kind[block["saves"]].append(1000 * block["worn"][_OWN])
    return Differences(tuple(by_kind[False]), tuple(by_kind[True])).per_step(saving_share)


def _said(name: str, environ: dict[str, str], *arguments: str) -> Any:
    """What the process of a framework says; where it has several ranks, the first one."""
    starter = ["-m"]
    if (num_ranks := FRAMEWORKS[name].num_ranks) > 1:
        starter = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks), "-m"]
    command = [sys.executable, *starter, "holter.infra.bench.framework_process", name, *arguments]
    with tempfile.TemporaryDirectory() as folder:
        chosen = {**environ, **_CHOSEN, "KERAS_HOME": folder}
        done = subprocess.run(command, env=chosen, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"the training of {name} failed: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
