from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.replay import curves
from holter.pipeline.replay.curves import thinned
from holter.pipeline.replay.replay import Replayed, ReplayOptions, replay
from holter.pipeline.replay.report import report_page
from holter.schemas.telemetry import GRAD_NORM, LOSS
from tests.replay.runs import Row, calm, csv_of, dying, spiking


@pytest.fixture(scope="module")
def spiking_log(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replayed(tmp_path_factory.mktemp("spiking"), spiking(), "one")


@pytest.fixture(scope="module")
def dying_log(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replayed(tmp_path_factory.mktemp("dying"), dying(), "two")


@pytest.fixture(scope="module")
def page_of_two(spiking_log: Replayed, dying_log: Replayed) -> str:
    """Of a run that spikes, one that dies and a file that is none."""
    return report_page([spiking_log, dying_log], [("three.csv", "it is empty")])


def replayed(tmp_path: Path, rows: list[Row], name: str = "run") -> Replayed:
    path = tmp_path / f"{name}.csv"
    path.write_text(csv_of(rows))
    return replay(path, ReplayOptions(with_curves=True))


def traces_of(page: str) -> list[list[dict[str, Any]]]:
    """The traces of each figure on a page."""
    calls = re.findall(r'Plotly\.newPlot\(\s*"[^"]+",\s*(\[.*?\]),\s*\{"', page, re.DOTALL)
    return [json.loads(call) for call in calls]


def named(traces: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [trace for trace in traces if trace.get("name") == name]


def test_a_page_draws_curves_baseline_and_probability(page_of_two: str, spiking_log: Replayed) -> None:
    traces, log = traces_of(page_of_two)[0], spiking_log
    (loss,) = named(traces, "loss")
    assert max(loss["y"]) == pytest.approx(max(row[LOSS] for row in spiking()))
    assert len(named(traces, "baseline")) == 2
    chances = named(traces, "P(recover)")
    assert len(chances) == len(log.findings) > 0
    assert chances[0]["x"][0] == log.findings[0].row


def test_a_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    page = report_page([replayed(tmp_path, calm(100))])
    outside_of_script = re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)
    assert "http" not in outside_of_script
    assert not re.search(r"<(?:script|link)[^>]*(?:src|href)=", page)
    assert "Nothing out of the ordinary" in page


def test_the_script_is_in_a_page_once(page_of_two: str) -> None:
    assert len(traces_of(page_of_two)) == 2
    assert page_of_two.count("plotly.js v") == 1
    assert "three.csv: it is empty" in page_of_two


def test_names_of_files_are_text(tmp_path: Path) -> None:
    page = report_page([replayed(tmp_path, calm(30), "<b>&run")])
    assert "&lt;b&gt;&amp;run.csv" in page
    assert "<b>&run" not in page


def test_values_that_are_not_finite_are_crosses(page_of_two: str) -> None:
    (crosses,) = named(traces_of(page_of_two)[1], "loss not finite")
    assert crosses["x"] == list(range(300, 420))


def test_a_log_whose_steps_go_back_is_drawn_by_row(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text(csv_of(calm(50)) + csv_of(calm(50)).partition("\n")[2])
    log = replay(path, ReplayOptions(with_curves=True))
    (traces,) = traces_of(report_page([log]))
    (loss,) = named(traces, "loss")
    assert loss["x"] == list(range(100))
    assert loss["text"][60] == " (step 10)"


def test_a_long_log_is_thinned_but_keeps_its_extremes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MAX_POINTS", 400)
    rows = calm(2_000)
    rows[1_001][LOSS] = -7.0
    log = replayed(tmp_path, rows)
    assert log.curves is not None
    curve = log.curves.by_metric[LOSS]
    assert len(curve.rows) <= 3 * 400
    assert min(curve.values) == -7.0
    assert max(curve.values) == max(row[LOSS] for row in rows)


def test_a_wide_range_is_drawn_on_a_log_axis(tmp_path: Path) -> None:
    wide = [{**row, GRAD_NORM: 10.0 ** (3 - step / 50)} for step, row in enumerate(calm(300))]
    page = report_page([replayed(tmp_path, wide)])
    layout = page[page.index('"yaxis2"') :]
    assert '"type":"log"' in layout[: layout.index('"yaxis3"')]
    assert '"type":"log"' not in page[page.index('"yaxis":{') : page.index('"yaxis2"')]


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=200), st.integers(1, 20))
def test_thinning_keeps_the_lowest_and_highest(values: list[float | None], num_buckets: int) -> None:
    rows = list(thinned(values, num_buckets))
    assert rows == sorted(set(rows))
    assert len(rows) <= 2 * num_buckets
    finite = [value for value in values if value is not None and math.isfinite(value)]
    kept = [value for row in rows if (value := values[row]) is not None]
    if finite:
        assert (min(kept), max(kept)) == (min(finite), max(finite))
    else:
        assert not kept
