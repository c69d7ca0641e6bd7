"""W&B offline, with a bus in memory: the rows of the real library are read from where it hands them to its service."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("wandb")

import wandb
from wandb.proto.wandb_internal_pb2 import Record

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.reading import read_log
from holter.producers.integrations import wandb as holter_wandb
from holter.producers.integrations import wandb_file
from holter.producers.integrations.follow import open_source
from holter.producers.integrations.wandb_file import WandbFile, read_rows
from holter.producers.run import Run
from holter.schemas.control import LrFactor
from tests.producers.integrations.signals import say
from tests.producers.test_actions import latch, make_run
from tests.producers.watch import FakeWatch, await_

pytestmark = [pytest.mark.frameworks, pytest.mark.network]


class Beside:
    """A W&B run and a run of Holter's, watched."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.told = FakeWatch()
        self.run: Run = make_run(self.told)
        self.tracked = wandb.init(project="tests", mode="offline", dir=folder, settings=wandb.Settings(silent=True))
        self.alerts: list[tuple[str, str]] = []
        self.tracked.alert = lambda title, text, level: self.alerts.append((level, title))  # type: ignore[method-assign]
        self.stop = holter_wandb.watch(self.tracked, self.run, **settings)
        self._folder = folder

    def waits(self) -> int:
        """Findings that no row has yet."""
        return len(self.tracked.log.__self__._waiting)  # type: ignore[attr-defined]

    def rows(self) -> list[dict[str, Any]]:
        self.run.finish()
        self.tracked.finish()
        wandb.teardown()  # its service writes the last block when it ends
        (path,) = self._folder.rglob("run-*.wandb")
        return list(read_rows(path))


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    both = Beside(tmp_path)
    yield both
    both.run.finish()
    both.tracked.finish()


def test_the_script_s_rows_are_heard_and_stay_as_they_are(beside: Beside) -> None:
    logged: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"loss": 1.0, "note": "text"}, {}),
        ({"loss": float("nan")}, {}),
        ({"grad_norm": 3.0}, {"commit": False}),
        ({"loss": 4.0}, {"step": 7}),
        ({"val": {"loss": 5.0}}, {"step": 7}),
    ]
    for row, how in logged:
        wandb.log(row, **how)
    rows = [{k: v for k, v in row.items() if k in ("_step", "loss", "grad_norm", "note")} for row in beside.rows()]
    assert math.isnan(rows[1].pop("loss"))
    assert rows == [
        {"_step": 0, "loss": 1, "note": "text"}, {"_step": 1}, {"_step": 2, "grad_norm": 3}, {"_step": 7, "loss": 4},
    ]  # fmt: skip
    assert str(beside.told.values("train/loss")) == "{0: 1.0, 1: nan, 7: 4.0}"
    assert beside.told.values("train/grad_norm") == {2: 3.0}
    assert beside.told.values("eval/loss") == {7: 5.0}


def test_what_holter_sees_and_does_stands_in_rows_of_the_script_and_is_alerted(beside: Beside) -> None:
    beside.tracked.log({"loss": 1.0})
    say(beside.told, severity="critical")
    await_(lambda: beside.alerts, "an alert")
    beside.told.act([LrFactor(0.5)])
    latch(beside.run)
    for action in beside.run.poll_actions(0):
        with action as a:
            a.done(1.0, 0.5)
    beside.tracked.log({"loss": 2.0})
    say(beside.told, phase="close", step=40, p_recover=None)
    await_(lambda: beside.waits(), "the end of the incident")
    first, second, last = beside.rows()
    assert [row["_step"] for row in (first, second, last)] == [0, 1, 2]
    assert "holter/loss_spike" not in first
    assert (second["loss"], second["holter/loss_spike"], second["holter/loss_spike/p_recover"]) == (2.0, 3.0, 0.25)
    assert (second["holter/action/lr_factor"], second["holter/action/lr_factor/after"]) == (1.0, 0.5)
    assert last["holter/loss_spike"] == 0.0
    assert beside.alerts == [
        ("ERROR", "Holter: loss_spike began at step 10"), ("WARN", "Holter: lr_factor applied at step 0"),
    ]  # fmt: skip


def test_findings_of_one_column_are_spread_over_rows(beside: Beside) -> None:
    beside.tracked.log({"loss": 1.0})
    for severity in ("info", "warning", "critical"):
        say(beside.told, severity=severity)
    await_(lambda: beside.waits() == 3, "three findings")
    for _ in range(3):
        beside.tracked.log({"loss": 1.0})
    assert [row.get("holter/loss_spike") for row in beside.rows()] == [None, 1.0, 2.0, 3.0]


def test_it_is_taken_back_at_the_end_and_not_done_twice(beside: Beside) -> None:
    with pytest.raises(ValueError, match="Holter watches the W&B run"):
        holter_wandb.watch(beside.tracked, beside.run)
    assert "log" in vars(beside.tracked)
    beside.run.finish()
    assert "log" not in vars(beside.tracked)
    assert wandb.log == beside.tracked.log
    assert not isinstance(getattr(wandb.log, "__self__", None), holter_wandb._Bridge)


def test_an_error_of_wandb_is_the_caller_s(beside: Beside) -> None:
    with pytest.raises(TypeError, match="must be passed a dictionary"):
        beside.tracked.log("loss")  # type: ignore[arg-type]
    beside.tracked.log({"loss": 1.0})
    assert [row["_step"] for row in beside.rows()] == [0]


def test_a_tracker_that_breaks_is_noted_and_nothing_else(beside: Beside) -> None:
    beside.tracked.alert = lambda *_, **__: 1 / 0  # type: ignore[assignment]
    beside.tracked.log({"loss": 1.0})
    say(beside.told)
    await_(lambda: beside.run.stats().get("notice_tracker"), "a notice")
    assert beside.rows()[-1]["holter/loss_spike"] == 2.0


def test_the_step_may_be_a_column(tmp_path: Path) -> None:
    both = Beside(tmp_path, step_name="global_step", names={"ce": "train/loss"})
    both.tracked.log({"ce": 3.0, "global_step": 500})
    both.rows()
    assert both.told.values("train/loss")[500] == 3.0


@pytest.mark.parametrize(("content", "reason"), [(None, "cannot be read"), (b"loss,step\n1,2\n", "is no .wandb file")])
def test_another_file_is_refused_in_a_line(
    tmp_path: Path, content: bytes | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.wandb"
    if content is not None:
        path.write_bytes(content)
    assert wandb_file.main([str(path)]) == 2
    assert reason in capsys.readouterr().err


def test_a_long_run_is_read_over_its_blocks_and_replayed(beside: Beside, tmp_path: Path) -> None:
    for step in range(400):
        beside.tracked.log({"loss": 2.0 + 0.01 * (step % 7), "text": "x" * 200})
    rows = beside.rows()
    assert [row["_step"] for row in rows] == list(range(400))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = read_log(path, ColumnNames({}), None)
    assert log.steps == list(range(400))
    assert log.metrics["train/loss"][:3] == pytest.approx([2.0, 2.01, 2.02])
    (recorded,) = tmp_path.rglob("run-*.wandb")
    source = open_source(recorded)
    assert isinstance(source, WandbFile)
    scalars = list(source.new_scalars())
    assert [scalar.step for scalar in scalars if scalar.tag == "loss"] == list(range(400))
    assert not list(source.new_scalars())
    grown = tmp_path / "grown.wandb"
    content = recorded.read_bytes()
    source, steps = WandbFile(grown), []
    for size in (7, 5_000, 32_767, 32_770, 65_536, 66_001, len(content)):
        grown.write_bytes(content[:size])
        steps += [scalar.step for scalar in source.new_scalars() if scalar.tag == "loss"]
    assert steps == list(range(400))


def test_a_growing_file_is_read_on_from_its_last_whole_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a record lies across the end of a block, and where it is still being written."""
    path = tmp_path / "run.wandb"
    path.write_bytes(HEAD)
    source, seen, sizes = WandbFile(path), [], []
    own_chunks = wandb_file._chunks

    def counted(rest: bytes, begin: int) -> Any:
        sizes.append(len(rest))
        return own_chunks(rest, begin)

    monkeypatch.setattr(wandb_file, "_chunks", counted)
    for step in range(40):
        whole = record(step, path.stat().st_size)
        for part in (whole[:900], whole[900:]):
            with path.open("ab") as file:
                file.write(part)
            seen.append([scalar.step for scalar in source.new_scalars() if scalar.tag == "loss"])
    assert seen == [steps for step in range(40) for steps in ([], [step])]
    assert max(sizes) < 2 * len(record(0, 0))


HEAD = b":W&B" + bytes(3)


def record(step: int, at: int) -> bytes:
    """One row of some 3 kB as the log would hold it at that place of the file."""
    written = Record()
    written.history.step.num = step
    for key, text in (("loss", "1.5"), ("text", json.dumps("x" * 3000))):
        written.history.item.add(key=key, value_json=text)
    body, framed, is_first = written.SerializeToString(), b"", True
    while True:
        left = 32 * 1024 - (at + len(framed)) % (32 * 1024)
        if left < 7:
            framed += bytes(left)
            continue
        chunk, body = body[: left - 7], body[left - 7 :]
        kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[is_first, not body]
        framed += struct.pack("<IHB", 0, len(chunk), kind) + chunk
        is_first = False
        if not body:
            return framed
