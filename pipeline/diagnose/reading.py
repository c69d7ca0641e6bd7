"""Reads every line of the jobs once, and keeps counts by node and the last iterations, never the lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from holter.pipeline.diagnose.iteration_marker import Marker
from holter.pipeline.diagnose.iterations import Track
from holter.pipeline.diagnose.log_folder import NodeLog
from holter.pipeline.diagnose.log_line import mask, parse
from holter.pipeline.diagnose.log_lines import Intake, OnBytes, read_lines
from holter.pipeline.diagnose.patterns import Pattern, pattern_of
from holter.pipeline.diagnose.symptoms import Symptom, named
from holter.pipeline.diagnose.templates import Vocabulary


class Reader:
    """Comparable jobs first, then the failed one.

    Attributes:
        counts: lines of each node by identity of the template.
        symptoms: what only the failed job said, by that identity.
    """

    def __init__(self, patterns: Sequence[Pattern], on_bytes: OnBytes | None = None) -> None:
        self.vocabulary, self.intake = Vocabulary(), Intake()
        self.counts: dict[str, Counter[int]] = {}
        self.tracks: dict[str, Track] = {}
        self._symptoms: dict[int, Symptom] = {}
        self._patterns, self._on_bytes = patterns, on_bytes

    def learn_known(self, node: NodeLog) -> None:
        for line in self._lines(node):
            self.vocabulary.learn_known(mask(parse(line).message))

    def read(self, node: NodeLog, marker: Marker | None) -> None:
        counts = self.counts[node.node] = Counter()
        track = self.tracks[node.node] = Track()
        for line_number, line in enumerate(self._lines(node), 1):
            level, message = parse(line)
            number = marker.number(message) if marker and message else None
            if number is not None:
                track.begin(number)
            masked = mask(message)
            is_new = self.vocabulary.is_new(masked)
            identity = self.vocabulary.identity(masked)
            counts[identity] += 1
            track.event(identity)
            if identity > 0 and message:
                symptom = self._symptoms.setdefault(identity, Symptom(node.node, line_number, message))
                symptom.add(node.node, level, pattern_of(message, self._patterns) if is_new else None)

    def symptoms(self) -> list[Symptom]:
        """Each with its template as it is in the end."""
        own = self.vocabulary.own
        return [named(symptom, own.text(identity)) for identity, symptom in self._symptoms.items()]

    def text(self, identity: int) -> str:
        """Of a template of either side."""
        of = self.vocabulary.own if identity > 0 else self.vocabulary.known
        return of.text(abs(identity)) if identity else ""

    def _lines(self, node: NodeLog) -> Iterator[str]:
        for path in node.paths:
            yield from read_lines(path, self.intake, self._on_bytes)
