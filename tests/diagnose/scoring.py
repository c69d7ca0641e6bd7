"""A diagnosis against what was injected, and a search for "error" against the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holter.pipeline.diagnose.diagnosis import Diagnosis
from holter.pipeline.diagnose.iteration_marker import Marker
from holter.pipeline.diagnose.log_folder import node_logs
from holter.pipeline.diagnose.log_line import WILDCARD, mask, parse
from holter.pipeline.diagnose.log_lines import Intake, read_lines
from holter.pipeline.diagnose.templates import Templates
from tests.diagnose.synthetic.job import Truth

_GREP = re.compile(r"error|fail|exception|fatal|traceback", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """``templates`` with the place of their first line each; ``nodes``, most suspect first."""

    templates: Sequence[tuple[str, tuple[str, int]]]
    nodes: Sequence[str]
    iteration: int | None


@dataclass(frozen=True)
class Score:
    """Counts for precision and recall of templates; None where the fault has no node or iteration to be found."""

    num_right: int
    num_reported: int
    num_found: int
    num_injected: int
    top1: bool | None
    top5: bool | None
    iterations_off: int | None
    has_onset: bool


def answer_of(diagnosis: Diagnosis) -> Answer:
    return Answer(
        [(each.template, (each.node, each.line_number)) for each in diagnosis.symptoms],
        [each.node for each in diagnosis.suspects],
        diagnosis.onset.departure.iteration if diagnosis.onset else None,
    )


def score(answer: Answer, truth: Truth, failed: Path) -> Score:
    """A template is right if its first line was injected; an injected text is found if a template covers one of its
    lines."""
    num_right = sum(place in truth.events for _, place in answer.templates)
    found = _found([template.split() for template, _ in answer.templates], truth, failed)
    off = None if truth.onset is None or answer.iteration is None else abs(answer.iteration - truth.onset)
    return Score(
        num_right,
        len(answer.templates),
        len(found),
        len(set(truth.events.values())),
        bool(truth.nodes & set(answer.nodes[:1])) if truth.nodes else None,
        bool(truth.nodes & set(answer.nodes[:5])) if truth.nodes else None,
        off,
        truth.onset is not None,
    )


def grep(failed: Path) -> Answer:
    """Every line that says so by its words or its level; nodes by how many they have, the iteration of the first."""
    templates, first, counts, iteration = Templates(), {}, Counter[str](), None
    marker = Marker()
    for node, number, text in _lines(failed):
        level, message = parse(text)
        if iteration is None:
            at = marker.number(message)
        if level in ("ERROR", "CRITICAL") or _GREP.search(text):
            counts[node] += 1
            iteration = iteration if iteration is not None else at
            first.setdefault(templates.learn(mask(message)), (node, number))
    return Answer(
        [(templates.text(each), place) for each, place in first.items()],
        [n for n, _ in counts.most_common()],
        iteration,
    )


def _found(templates: Sequence[Sequence[str]], truth: Truth, failed: Path) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for node, number, text in _lines(failed):
        event = truth.events.get((node, number))
        if event is not None and event not in found:
            tokens = mask(parse(text).message).split()
            if any(_covers(template, tokens) for template in templates):
                found.add(event)
    return found


def _covers(template: Sequence[str], tokens: Sequence[str]) -> bool:
    return len(template) == len(tokens) and all(a in (WILDCARD, b) for a, b in zip(template, tokens, strict=True))


def _lines(folder: Path) -> Iterable[tuple[str, int, str]]:
    for log in node_logs(folder):
        for path in log.paths:
            for number, text in enumerate(read_lines(path, Intake()), 1):
                yield log.node, number, text
