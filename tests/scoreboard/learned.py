"""The learned detector, fitted on other families: alone, and as a further signal beside Holter's.

The corpora that the project makes share their faults: to leave a kind of them out hides its noise, not the harm done to
it, so only labelled real runs say how well this carries over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from holter.pipeline.core.detect.learned import FEATURES, LearnedModel
from holter.pipeline.core.signals import SignalSettings
from holter.pipeline.fit.design import Floats
from holter.pipeline.fit.learned import Lesson, episodes, features_of, models_left_out
from tests.scoreboard.rule import Event
from tests.scoreboard.rules.holter import Holter
from tests.scoreboard.truth import LabelledRun, truth_of

NAME = "learned (logistic, family left out)"
BOTH = "Holter + learned"
NOTICE = "info_learned"
NOT_FINITE = FEATURES.index("not finite")


def lesson_of(run: LabelledRun) -> Lesson:
    known = truth_of(run.labels)
    incidents, doubtful = ([(span.first_row, span.last_row) for span in spans] for spans in known)
    return Lesson(run.family, features_of(run.records), incidents, doubtful)


def events_of(model: LearnedModel, features: Floats) -> list[Event]:
    """Each episode is an incident of its own; only a value that is no number is acted on."""
    return [_event(row, is_nan=features[row, NOT_FINITE] == 1.0) for row in episodes(model, features)]


def _event(row: int, is_nan: bool) -> Event:
    return Event(row, "nan", "rollback") if is_nan else Event(row, "loss_spike")


def events_beside(holter: Holter, model: LearnedModel, run: LabelledRun) -> list[Event]:
    """Holter's events, with the notices of the learned detector counted as signals."""
    settings = holter.settings or SignalSettings()
    asked = replace(settings, detectors=replace(settings.detectors, learned=model))
    events = replace(holter, settings=asked).events(run.records)
    return [event._replace(kind="learned") if event.kind == NOTICE else event for event in events]


def left_out(
    corpora: Mapping[str, Sequence[LabelledRun]], holter: Holter
) -> Iterator[tuple[str, LabelledRun, list[Event], list[Event]]]:
    """Corpus and run; the events of a detector that was fitted without the run's family, and Holter's with them."""
    known = [(corpus, run, lesson_of(run)) for corpus, runs in corpora.items() for run in runs]
    for families, model in models_left_out([lesson for _, _, lesson in known]):
        for corpus, run, lesson in known:
            if run.family in families:
                yield corpus, run, events_of(model, lesson.features), events_beside(holter, model, run)
