"""Writes the logs of one job, healthy or failed, and keeps which line says what."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.diagnose.synthetic import usual
from tests.diagnose.synthetic.faults import TEARDOWN, Fault, Lines

STYLES = ("megatron", "torch", "native")
_WORDS = ("books", "code", "web", "wiki", "papers", "forums", "news", "math")
_RANGES = {"n": (10, 10**6), "rank": (0, 8), "small": (1, 9), "large": (100, 900)}
_VALUE = re.compile(r"\{(\w+)\}")
_CASCADE_SHARE = 0.85
_RARE_SHARE = 0.06


@dataclass(frozen=True)
class Plan:
    """``style`` is the framework's: how its lines begin, and which nodes count iterations."""

    seed: int
    style: str = "torch"
    num_nodes: int = 64
    num_iterations: int = 70
    fault: Fault | None = None


@dataclass
class Truth:
    """``events``: the injected line's text by ``(node, number of the line)``; ``onset`` None where none was begun."""

    nodes: frozenset[str] = frozenset()
    onset: int | None = None
    events: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)


class Job:
    """A failed job ends ``lead`` iterations at most after its onset; a healthy one at its last iteration."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.truth = plan, Truth()
        self._random = random.Random(plan.seed)
        self._noise = self._drawn_noise()
        self._nodes = [f"node-{number:03d}" for number in range(plan.num_nodes)]
        self._first = self._random.randrange(0, 5000, 10)
        self._onset = self._end = plan.num_iterations
        if plan.fault:
            self._lay(plan.fault)

    def write(self, folder: Path) -> Truth:
        folder.mkdir(parents=True)
        for node in self._nodes:
            lines = self._numbered(node, self._said(node))
            (folder / f"{node}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self.truth

    def _lay(self, fault: Fault) -> None:
        num_iterations = self.plan.num_iterations
        self._onset = self._random.randrange(num_iterations // 2, num_iterations)
        self._end = self._onset + (self._random.randint(1, fault.lead) if fault.lead else 0)
        self.truth.nodes = frozenset(self._random.sample(self._nodes, fault.num_faulty))
        self.truth.onset = None if fault.at_launch else self._first + self._onset

    def _drawn_noise(self) -> list[tuple[str, str, float, int]]:
        """Level, text, chance in an iteration, and of how many nodes."""
        draw = self._random
        common = [(*each, draw.choice((0.01, 0.03, 0.1)), 1000) for each in usual.COMMON_NOISE if draw.random() < 0.85]
        rare = [
            (level, text.replace("{subject}", subject), draw.choice((0.02, 0.2)), draw.choice((1, 3, 1000)))
            for level, text in usual.RARE_SAYINGS
            for subject in usual.RARE_SUBJECTS
            if draw.random() < _RARE_SHARE
        ]
        return common + rare

    def _said(self, node: str) -> Iterator[tuple[str, str, bool]]:
        """Level, text, and whether it is the fault's."""
        fault, faulty = self.plan.fault, node in self.truth.nodes
        yield from _usual(usual.START)
        if not (fault and fault.at_launch):
            noise = [each for each in self._noise if self._random.random() * self.plan.num_nodes < each[3]]
            for at in range(self._end + (fault is not None)):
                yield from self._iteration(at, node, noise, faulty)
        if fault:
            yield from self._death(fault, faulty)
        else:
            yield "INFO", "training finished, exiting", False

    def _iteration(
        self, at: int, node: str, noise: Iterable[tuple[str, str, float, int]], faulty: bool
    ) -> Iterator[tuple[str, str, bool]]:
        draw, number = self._random, str(self._first + at)
        lines = [(level, text, False) for level, text in usual.ITERATION]
        lines += [(level, text, False) for level, text, chance, _ in noise if draw.random() < chance]
        lines += [(*usual.HEARTBEAT, False)] * (draw.random() < 0.8)
        lines += [(level, text, False) for level, text in usual.CHECKPOINT if at % 20 == 19]
        if faulty and at >= self._onset:
            lines += self._trouble(at)
        for _ in range(len(lines) // 5):
            swapped = draw.randrange(len(lines) - 1)
            lines[swapped : swapped + 2] = reversed(lines[swapped : swapped + 2])
        if at == self._end and self.plan.fault:
            lines = lines[: draw.randint(1, len(lines))] if not faulty else lines
        if self.plan.style != "megatron" or node == self._nodes[-1]:
            marker = usual.SUMMARY if self.plan.style == "megatron" else usual.PLAIN_STEP
            lines.insert(0, ("INFO", marker, False))
        for level, text, injected in lines:
            yield level, text.replace("{i}", number).replace("{total}", "50000"), injected

    def _trouble(self, at: int) -> list[tuple[str, str, bool]]:
        fault = self.plan.fault
        assert fault is not None
        said = fault.first if at == self._onset else [each for each in fault.again if self._random.random() < 0.7]
        return [(level, text, True) for level, text in said]

    def _death(self, fault: Fault, faulty: bool) -> Iterator[tuple[str, str, bool]]:
        if faulty and fault.silent:
            return
        if faulty or not self.truth.nodes:
            yield from _injected(fault.last)
        elif self._random.random() < _CASCADE_SHARE:
            yield from _injected(fault.others)
        if self._random.random() < _CASCADE_SHARE:
            yield from _injected(TEARDOWN)

    def _numbered(self, node: str, said: Iterable[tuple[str, str, bool]]) -> Iterator[str]:
        for number, (level, text, injected) in enumerate(said, 1):
            filled = self._filled(text, node)
            if injected:
                self.truth.events[node, number] = (level, text)
            yield self._header(level, number) + filled

    def _header(self, level: str, number: int) -> str:
        second, rank = f"{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}", self._random.randrange(8)
        if not level:
            return f"[rank{rank}]: " if self.plan.style == "torch" else ""
        if self.plan.style == "native":
            return f"{level[0]}0301 {second}.{number:06d} {rank + 4000} trainer.cc:{100 + len(level)}] "
        if self.plan.style == "torch":
            return f"2026-03-01T{second}.123Z [rank{rank}]: {level} "
        return f"[2026-03-01 {second},{number % 1000:03d}] [{level}] "

    def _filled(self, text: str, node: str) -> str:
        return _VALUE.sub(lambda found: self._value(found[1], node), text)

    def _value(self, name: str, node: str) -> str:
        draw = self._random.random
        if name in _RANGES:
            least, most = _RANGES[name]
            return str(least + int(draw() * (most - least)))
        if name == "f":
            return f"{draw() * 900:.{1 + int(draw() * 4)}f}"
        if name == "ip":
            return f"10.{int(draw() * 256)}.{int(draw() * 256)}.{1 + int(draw() * 254)}"
        if name == "path":
            return f"/mnt/{self._word()}/run{int(draw() * 99)}/{self._word()}-{int(draw() * 1e4)}"
        return {
            "host": node,
            "word": self._word(),
            "hex": hex(int(draw() * 2**44)),
            "hash": f"{int(draw() * 2**63):016x}",
        }[name]

    def _word(self) -> str:
        return _WORDS[int(self._random.random() * len(_WORDS))]


def _usual(lines: Lines) -> Iterator[tuple[str, str, bool]]:
    return ((level, text, False) for level, text in lines)


def _injected(lines: Lines) -> Iterator[tuple[str, str, bool]]:
    return ((level, text, True) for level, text in lines)
