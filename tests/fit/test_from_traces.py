from __future__ import annotations

from pathlib import Path

import pytest

from holter.pipeline.fit.errors import BadLabels
from holter.pipeline.fit.from_traces import gather_from_traces
from holter.pipeline.fit.labels import LabelledIncident, read_labels
from holter.pipeline.replay.judge import judge
from holter.pipeline.replay.reading import read_log
from tests.fit.labelled import write_folder

HEAD = "file,kind,recovered,confidence,row_start,row_end,incident\n"


def test_the_labels_of_one_incident_are_one_and_lost_where_one_says_so(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(
        f"{HEAD}b.csv,loss_spike,yes,high,10,12,1\nb.csv,divergence,no,medium,11,40,1\nb.csv,nan,yes,high,90,91,2\n"
        "b.csv,loss_spike,no,low,60,61,3\nb.csv,benign_blip,yes,high,70,70,4\na.csv,restart,yes,high,1,1,1\n"
    )
    (run,) = read_labels(tmp_path)
    assert (run.path, run.family) == (tmp_path / "b.csv", "b.csv")
    assert run.incidents == [LabelledIncident(10, 40, False), LabelledIncident(90, 91, True)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("file,kind\n", "row_start"),
        (f"{HEAD}a.csv,nan,no,high,one,2,1\n", "numbers of rows"),
        (f"{HEAD}a.csv,nan,no,high\n", "numbers of rows"),
        ("\udcff", "is no CSV file"),
    ],
)
def test_labels_that_cannot_be_read_are_refused_with_the_file(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "labels.csv").write_text(content, errors="surrogateescape")
    with pytest.raises(BadLabels, match=words) as caught:
        read_labels(tmp_path)
    assert "labels.csv" in str(caught.value)


def test_every_labelled_incident_has_the_features_of_its_records(tmp_path: Path) -> None:
    gathered = gather_from_traces(read_labels(write_folder(tmp_path, 1, 1)), max_records=10)
    found = [(incident.group, incident.healed) for incident in gathered.incidents]
    assert found == [*[("heals", True)] * 4, ("lost", False)]
    assert not gathered.left_out
    for incident in gathered.incidents:
        numbers = [features["num_records"] for features in incident.records]
        assert numbers == list(range(1, len(numbers) + 1))
    assert len(gathered.incidents[-1].records) == 10
    assert gathered.incidents[-1].records[5]["loss_non_finite"] == 1.0


def test_what_is_said_at_the_close_is_no_forecast(tmp_path: Path) -> None:
    (run,) = read_labels(write_folder(tmp_path, 1, 0))
    closed = [event.signal for event in judge(read_log(run.path).records()) if event.phase == "close"]
    incidents = gather_from_traces([run], max_records=1000).incidents
    assert len(closed) == len(incidents) == 4
    for signal, incident in zip(closed, incidents, strict=True):
        assert signal is not None
        assert incident.records[-1]["num_records"] == signal.features["num_records"] - 1


def test_what_the_detectors_do_not_see_is_counted(tmp_path: Path) -> None:
    write_folder(tmp_path, 1, 0)
    (tmp_path / "labels.csv").write_text(f"{HEAD}heals-0.csv,loss_spike,yes,high,80,90,1\n")
    gathered = gather_from_traces(read_labels(tmp_path), max_records=10)
    assert gathered.left_out == {"the detectors did not see it": 1}


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(f"{HEAD}gone.csv,nan,no,high,1,2,1\n")
    with pytest.raises(BadLabels, match=r"gone\.csv"):
        gather_from_traces(read_labels(tmp_path), max_records=10)
