"""A diagnosis for people, and as one JSON object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holter.pipeline.diagnose.diagnosis import Diagnosis
from holter.pipeline.diagnose.patterns import Pattern
from holter.pipeline.diagnose.symptoms import Symptom

_SHOWN_NODES = 3
_SHOWN_CHARACTERS = 160


def print_diagnosis(console: Console, found: Diagnosis, num_nodes: int, num_lines: int) -> None:
    if found.suspects:
        console.print(_suspects(found, num_nodes))
    if found.symptoms:
        console.print(_symptoms(found, num_lines))
    for pattern, symptoms in _matched(found):
        nodes = {node for symptom in symptoms for node in symptom.nodes}
        console.print(Text.assemble((pattern.name, "bold"), f" ({_named(nodes, found.num_nodes)}): {pattern.means}"))
        console.print(Text(f"    do: {pattern.do}"))
    console.print(Text(_onset(found)))
    for note in (*found.notes, *_intake(found)):
        console.print(Text(note, "dim"))


def as_document(found: Diagnosis) -> dict[str, Any]:
    return {
        "num_nodes": found.num_nodes,
        "suspects": [
            {"node": each.node, "score": round(each.score, 4), "last_iteration": found.last_iterations.get(each.node)}
            for each in found.suspects
        ],
        "symptoms": [_described(each) for each in found.symptoms],
        "patterns": [
            {"name": pattern.name, "means": pattern.means, "do": pattern.do, "num_lines": _num_lines(symptoms)}
            for pattern, symptoms in _matched(found)
        ],
        "onset": _described_onset(found),
        "compared": list(found.compared),
        "read": {
            "num_lines": found.intake.num_lines,
            "num_cut": found.intake.num_cut,
            "num_undecodable_bytes": found.intake.num_undecodable_bytes,
            "set_aside": found.intake.set_aside,
        },
        "notes": list(found.notes),
    }


def _suspects(found: Diagnosis, num_shown: int) -> Table:
    shown = Table(title=f"Most unlike the others, of {found.num_nodes} nodes")
    for column in ("node", "score", "lines only it and few others said", "its last iteration"):
        shown.add_column(column, justify="left" if column == "node" else "right")
    few = [each for each in found.symptoms if 2 * len(each.nodes) <= found.num_nodes]
    for each in found.suspects[:num_shown]:
        last = found.last_iterations.get(each.node)
        own = sum(symptom.nodes[each.node] for symptom in few)
        shown.add_row(each.node, f"{each.score:.3f}", f"{own:,}", "–" if last is None else f"{last:,}")
    return shown


def _symptoms(found: Diagnosis, num_shown: int) -> Table:
    what = "that no comparable job said" if found.compared else "worth a look"
    shown = Table(title=f"Lines {what}: {min(num_shown, len(found.symptoms))} of {len(found.symptoms)} templates")
    shown.add_column("lines", justify="right")
    shown.add_column("nodes")
    shown.add_column("level")
    shown.add_column("signature")
    shown.add_column("first of them", overflow="fold")
    for each in found.symptoms[:num_shown]:
        level = each.levels.most_common(1)[0][0].lower()
        name = each.pattern.name if each.pattern else ""
        text = each.example[:_SHOWN_CHARACTERS] + ("…" if len(each.example) > _SHOWN_CHARACTERS else "")
        shown.add_row(f"{each.num_lines:,}", _named(each.nodes, found.num_nodes), level, name, Text(text))
    return shown


def _named(nodes: Counter[str] | set[str], num_nodes: int) -> str:
    """
    >>> _named({"a", "b"}, 64), _named({"a", "b", "c", "d"}, 64), _named({"a", "b", "c", "d"}, 4)
    ('a, b', 'a, b, c and 1 more', 'all 4')
    """
    if len(nodes) == num_nodes > _SHOWN_NODES:
        return f"all {num_nodes}"
    more = len(nodes) - _SHOWN_NODES
    return ", ".join(sorted(nodes)[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")


def _matched(found: Diagnosis) -> list[tuple[Pattern, list[Symptom]]]:
    """Those of the fewest nodes first: what many say is mostly a consequence."""
    by_pattern: dict[str, tuple[Pattern, list[Symptom]]] = {}
    for each in found.symptoms:
        if each.pattern:
            by_pattern.setdefault(each.pattern.name, (each.pattern, []))[1].append(each)
    return sorted(by_pattern.values(), key=lambda each: max(len(symptom.nodes) for symptom in each[1]))


def _num_lines(symptoms: Sequence[Symptom]) -> int:
    return sum(each.num_lines for each in symptoms)


def _onset(found: Diagnosis) -> str:
    if found.onset is None:
        return "No iteration is unlike those before it."
    departure, stage = found.onset.departure, found.onset.stage
    after = f"after “{stage}”" if stage else "from its first line on"
    return (
        f"Unlike those before since iteration {departure.iteration:,} on {found.onset.node}, {after} "
        f"(DTW distance {departure.distance:.2f}, where {departure.threshold:.2f} is 3σ)."
    )


def _described_onset(found: Diagnosis) -> dict[str, Any] | None:
    if found.onset is None:
        return None
    departure = found.onset.departure
    return {
        "node": found.onset.node,
        "iteration": departure.iteration,
        "after": found.onset.stage,
        "distance": round(departure.distance, 4),
        "threshold": round(departure.threshold, 4),
    }


def _described(symptom: Symptom) -> dict[str, Any]:
    return {
        "template": symptom.template,
        "num_lines": symptom.num_lines,
        "nodes": dict(sorted(symptom.nodes.items())),
        "levels": dict(symptom.levels),
        "pattern": symptom.pattern.name if symptom.pattern else None,
        "first": {"node": symptom.node, "line": symptom.line_number, "text": symptom.example},
    }


def _intake(found: Diagnosis) -> Iterator[str]:
    intake = found.intake
    against = f", compared with {', '.join(found.compared)}" if found.compared else ""
    yield f"read {intake.num_lines:,} lines{against}"
    if intake.num_cut:
        yield f"{intake.num_cut:,} lines were longer than 2,000 characters: their beginning was used"
    if intake.num_undecodable_bytes:
        yield f"{intake.num_undecodable_bytes:,} bytes are no UTF-8"
    for path, reason in list(intake.set_aside.items())[:5]:
        yield f"set aside: {path}: {reason}"
    if len(intake.set_aside) > 5:
        yield f"set aside: {len(intake.set_aside) - 5} more files"
