"""What only the failed job said, by template: how often, by whom, at which level, and what it is known to mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from holter.pipeline.diagnose.patterns import Pattern
from holter.pipeline.diagnose.suspects import Suspect

_SERIOUS = {"ERROR", "CRITICAL"}
_RARE_SHARE = 0.1


@dataclass
class Symptom:
    """``example`` is its first line, without its header: the node that said it, and the number of the line there."""

    node: str
    line_number: int
    example: str
    template: str = ""
    nodes: Counter[str] = field(default_factory=Counter)
    """Lines by node."""
    levels: Counter[str] = field(default_factory=Counter)
    pattern: Pattern | None = None

    def add(self, node: str, level: str, pattern: Pattern | None) -> None:
        self.nodes[node] += 1
        self.levels[level] += 1
        self.pattern = self.pattern or pattern

    @property
    def num_lines(self) -> int:
        return self.nodes.total()


def named(symptom: Symptom, template: str) -> Symptom:
    return replace(symptom, template=template)


def in_order(symptoms: Sequence[Symptom], suspects: Sequence[Suspect], num_nodes: int) -> list[Symptom]:
    """First what few nodes said, beginning with the most suspect node; then what most of them did."""
    position = {suspect.node: at for at, suspect in enumerate(suspects)}

    def turn(symptom: Symptom) -> tuple[bool, int, int, int, str]:
        best = min(position.get(node, num_nodes) for node in symptom.nodes)
        return 2 * len(symptom.nodes) > num_nodes, best, len(symptom.nodes), symptom.line_number, symptom.template

    return sorted(symptoms, key=turn)


def notable(symptoms: Sequence[Symptom], num_nodes: int) -> list[Symptom]:
    """Where no job that succeeded is there to compare with: known signatures, errors, and what few nodes said."""
    most = max(1, int(_RARE_SHARE * num_nodes))
    return [
        each for each in symptoms if each.pattern or _SERIOUS & set(each.levels) or len(each.nodes) <= most < num_nodes
    ]
