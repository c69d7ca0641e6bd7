"""L4 as a whole: from the logs of a failed job to node, lines and iteration (Jiang et al., FSE'25, 2503.20263)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from holter.pipeline.diagnose.comparable import Job, objection, scale_bucket
from holter.pipeline.diagnose.errors import UnusableLogs
from holter.pipeline.diagnose.iteration_marker import Marker, find_marker
from holter.pipeline.diagnose.iterations import Departure, depart
from holter.pipeline.diagnose.log_folder import NodeLog, node_logs
from holter.pipeline.diagnose.log_lines import Intake, OnBytes, read_lines
from holter.pipeline.diagnose.patterns import Pattern, shipped_patterns
from holter.pipeline.diagnose.reading import Reader
from holter.pipeline.diagnose.suspects import FEWEST_NODES, Suspect, rank_nodes
from holter.pipeline.diagnose.symptoms import Symptom, in_order, notable
from holter.pipeline.diagnose.templates import MAX_TEMPLATES


@dataclass(frozen=True)
class Options:
    """``iteration``: its last group is the number; None to find it."""

    iteration: re.Pattern[str] | None = None
    patterns: Sequence[Pattern] = field(default_factory=shipped_patterns)


@dataclass(frozen=True)
class Onset:
    """Since when a node's iterations are not like those before; ``stage`` is the template of the last usual event."""

    node: str
    departure: Departure
    stage: str


@dataclass(frozen=True)
class Diagnosis:
    """``compared``: the folders of jobs that succeeded. ``notes``: what limits what is said, a line each."""

    num_nodes: int
    suspects: tuple[Suspect, ...]
    symptoms: tuple[Symptom, ...]
    onset: Onset | None
    last_iterations: Mapping[str, int]
    compared: tuple[str, ...]
    intake: Intake
    notes: tuple[str, ...]


def diagnose(
    failed: Job, good: Sequence[Job] = (), options: Options | None = None, on_bytes: OnBytes | None = None
) -> Diagnosis:
    """Memory holds no lines: 50,000 templates of either side, 100,000 masked messages, and of each node its counts and
    128 iterations of 256 events at most.

    Raises:
        UnusableLogs: a folder has no logs, or nothing in it is text.
        MissingLibrary: the extra ``diagnose`` is not installed.
    """
    options = options or Options()
    nodes = node_logs(failed.folder)
    compared, notes = comparable_jobs(failed, len(nodes), good)
    reader = Reader(options.patterns, on_bytes)
    for job, logs in compared:
        _read_all(reader.learn_known, logs, reader.intake, job)
    marker = Marker(options.iteration) if options.iteration else _find_marker(nodes)
    _read_all(lambda node: reader.read(node, marker), nodes, reader.intake, failed)
    notes += [] if marker else ["no line counts iterations: give --iteration REGEX, whose group is the number"]
    return _concluded(reader, [str(job.folder) for job, _ in compared], notes)


def comparable_jobs(
    failed: Job, num_nodes: int, good: Sequence[Job]
) -> tuple[list[tuple[Job, list[NodeLog]]], list[str]]:
    """Those to compare with, with their logs, and why others are not, or are only in part.

    Raises:
        UnusableLogs: one has no logs, or is the failed job itself.
    """
    compared, notes = [], []
    for job in sorted(set(good)):
        if job.folder.resolve() == failed.folder.resolve():
            raise UnusableLogs(f"{job.folder} is the failed job itself: --good names jobs that succeeded")
        logs = node_logs(job.folder)
        against = objection(failed, num_nodes, job, len(logs))
        if against:
            notes.append(f"{job.folder} was not compared with: {against}")
            continue
        compared.append((job, logs))
        if scale_bucket(len(logs)) != scale_bucket(num_nodes):
            notes.append(
                f"{job.folder} has {len(logs)} nodes, not {num_nodes}: what is usual at this scale may be listed"
            )
    return compared, notes


def _read_all(read: Callable[[NodeLog], None], nodes: Sequence[NodeLog], intake: Intake, job: Job) -> None:
    before = intake.num_lines
    for node in nodes:
        read(node)
    if intake.num_lines == before:
        reasons = [
            intake.set_aside[str(path)] for node in nodes for path in node.paths if str(path) in intake.set_aside
        ]
        raise UnusableLogs(f"{job.folder} holds no log that can be read: {nodes[0].paths[0].name}: {reasons[0]}")


def _find_marker(nodes: Sequence[NodeLog]) -> Marker | None:
    """Of the first node that counts iterations: often only one does."""
    found = (find_marker(chain.from_iterable(read_lines(path, Intake()) for path in node.paths)) for node in nodes)
    return next((marker for marker in found if marker), None)


def _concluded(reader: Reader, compared: Sequence[str], notes: list[str]) -> Diagnosis:
    own = {node: {each: count for each, count in counts.items() if each > 0} for node, counts in reader.counts.items()}
    suspects = rank_nodes(own if any(own.values()) else reader.counts)
    symptoms = reader.symptoms() if compared else notable(reader.symptoms(), len(own))
    return Diagnosis(
        num_nodes=len(own),
        suspects=tuple(suspects),
        symptoms=tuple(in_order(symptoms, suspects, len(own))),
        onset=_onset(reader, suspects),
        last_iterations={node: track.iterations[-1][0] for node, track in reader.tracks.items() if track.iterations},
        compared=tuple(compared),
        intake=reader.intake,
        notes=tuple(notes + _limits(reader, suspects, compared)),
    )


def _onset(reader: Reader, suspects: Sequence[Suspect]) -> Onset | None:
    """Of the most suspect node that departs from its own iterations; where none is suspect, of the first to depart."""
    nodes = [each.node for each in suspects] or sorted(reader.tracks)
    departures = ((node, depart(reader.tracks[node].iterations)) for node in nodes)
    found = ((node, departure) for node, departure in departures if departure)
    earliest = next(found, None) if suspects else min(found, key=lambda each: each[1].iteration, default=None)
    return earliest and Onset(*earliest, reader.text(earliest[1].stage or 0))


def _limits(reader: Reader, suspects: Sequence[Suspect], compared: Sequence[str]) -> list[str]:
    found = []
    if not compared:
        found.append(
            "no comparable job that succeeded was given (--good FOLDER), so what is usual cannot be told from what is "
            "not: listed are known signatures, errors and lines of few nodes; nodes are ranked over all lines"
        )
    if not suspects:
        few = len(reader.counts) < FEWEST_NODES
        found.append(f"nodes are not ranked: {f'it takes {FEWEST_NODES} of them' if few else 'all said the same'}")
    if max(len(reader.vocabulary.own), len(reader.vocabulary.known)) >= MAX_TEMPLATES:
        found.append(f"there are more than {MAX_TEMPLATES:,} templates: lines that fit none of them were not counted")
    return found
