"""The learned detector: fitted on labelled runs, never on the families that it is scored on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holter.pipeline.core.detect.learned import FEATURES
from holter.pipeline.core.detect.learned_model import SHIPPED
from holter.pipeline.core.detect.stack import DetectorSettings
from holter.pipeline.core.signals import SignalSettings
from holter.pipeline.fit import learned
from holter.pipeline.fit.errors import BadWeightsFile, TooFewIncidents
from holter.pipeline.fit.from_traces import lessons_from_traces
from holter.pipeline.fit.labels import read_runs
from holter.pipeline.fit.learned import (
    LearnedFitSettings,
    LearnedModel,
    Lesson,
    Tally,
    episodes,
    features_of,
    fit_learned,
    models_left_out,
    tally,
)
from holter.pipeline.fit.learned_file import model_from_text, model_named, text_of, write_model
from holter.pipeline.replay.judge import judge
from holter.pipeline.replay.reading import read_log
from tests.fit.labelled import CALM_ROWS, write_folder
from tests.scoreboard.series import records_of

SCORE = LearnedModel(0.0, (1.0,) + (0.0,) * (len(FEATURES) - 1), threshold=3.0)
SETTINGS = LearnedFitSettings()


def lesson(
    family: str, high_rows: list[int], incidents: list[tuple[int, int]], doubtful: list[tuple[int, int]]
) -> Lesson:
    features = np.zeros((300, len(FEATURES)))
    features[high_rows, 0] = 8.0
    return Lesson(family, features, incidents, doubtful)


def test_episodes_are_counted_as_in_time_late_false_or_excused() -> None:
    one = lesson("f", [50, 130, 200, 290], [(52, 90), (100, 140), (240, 260)], [(195, 205)])
    found = tally(SCORE, [one], SETTINGS)
    assert found == Tally(num_incidents=3, num_hit=1, num_late=1, num_false=1, num_healthy_rows=300 - 46 - 48 - 18 - 28)
    assert found.f1 == pytest.approx(2 * (2 / 3) * (1 / 3) / (2 / 3 + 1 / 3))
    assert Tally().f1 == 0.0


def test_a_fit_finds_the_feature_that_tells() -> None:
    rows = [[50 + 10 * number] for number in range(10)]
    lessons = [lesson(f"f{number}", at, [(at[0], at[0] + 5)], []) for number, at in enumerate(rows)]
    fitted = fit_learned(lessons)
    assert max(range(len(FEATURES)), key=fitted.model.weights.__getitem__) == 0
    assert (fitted.fitted.num_hit, fitted.fitted.num_false) == (10, 0)
    assert fitted.outside is not None
    assert (fitted.outside.f1, fitted.num_families) == (1.0, 10)


def test_no_model_is_fitted_on_a_family_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[set[str]] = []

    def remember(lessons: list[Lesson], settings: LearnedFitSettings) -> LearnedModel:
        fitted.append({item.family for item in lessons})
        return SCORE

    monkeypatch.setattr(learned, "model_of", remember)
    left = [families for families, _ in models_left_out([lesson(name, [], [], []) for name in "aabc"])]
    assert [families | seen for families, seen in zip(left, fitted, strict=True)] == [{"a", "b", "c"}] * 3
    assert all(not families & seen for families, seen in zip(left, fitted, strict=True))


def test_features_of_a_row_are_of_it_and_earlier_ones_as_the_stage_sees_them(tmp_path: Path) -> None:
    run = read_runs(write_folder(tmp_path, 1, 0))[0]
    records = list(read_log(run.path).records())
    rows = features_of(records)
    assert rows.shape == (len(records), len(FEATURES))
    assert np.array_equal(rows[:200], features_of(records[:200]))
    assert rows[CALM_ROWS, FEATURES.index("loss score")] == 12.0


def test_labelled_runs_teach_with_their_doubtful_rows_and_healthy_ones(tmp_path: Path) -> None:
    write_folder(tmp_path, 2, 1)
    with (tmp_path / "labels.csv").open("a") as labels:
        labels.write("heals-0.csv,benign_blip,yes,high,5,6,b\nheals-1.csv,loss_spike,yes,low,7,9,c\n")
    with (tmp_path / "INDEX.csv").open("a") as index:
        index.write("calm.csv,calm\n")
    (tmp_path / "calm.csv").write_text("step,loss\n" + "".join(f"{step},2.0\n" for step in range(30)))
    calm, first, second, lost = lessons_from_traces(read_runs(tmp_path))
    assert (calm.family, calm.incidents, len(calm.features)) == ("calm", [], 30)
    assert (first.doubtful, second.doubtful, lost.doubtful) == ([(5, 6)], [(7, 9)], [])
    assert [len(item.incidents) for item in (first, second, lost)] == [4, 4, 1]


def test_too_few_incidents_are_refused_with_their_number() -> None:
    with pytest.raises(TooFewIncidents, match="1 labelled incidents; a detector needs 10"):
        fit_learned([lesson("f", [5], [(5, 9)], [])])


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "learned.json"
    write_model(path, SHIPPED)
    assert model_named(str(path)) == model_from_text(text_of(SHIPPED)) == model_named("shipped") == SHIPPED


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "is no learned detector"),
        ('{"bias": 0.0, "threshold": 1.0, "weights": {"loss score": 1.0}}', "was fitted by another version"),
        (text_of(SHIPPED).replace('"version":1', '"version":2'), r"another version \(version 2\)"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "learned.json"
    path.write_text(content)
    with pytest.raises(BadWeightsFile, match=words):
        model_named(str(path))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(BadWeightsFile, match=r"none\.json: No such file or directory"):
        model_named("none.json")


def test_the_stage_tells_the_episodes_that_the_fit_counted() -> None:
    """What a fit promises of a model is what a live run hears, where no rule speaks."""
    draw = np.random.default_rng(0)
    losses = 2.0 + 0.02 * draw.standard_normal(500)
    losses[300:312] += 0.07
    records = records_of({"train/loss": losses})
    keen = LearnedModel(SHIPPED.bias, SHIPPED.weights, 0.5)
    told = judge(records, settings=SignalSettings(DetectorSettings(learned=keen)))
    assert [event.row for event in told] == episodes(keen, features_of(records)) != []
