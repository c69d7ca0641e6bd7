"""Each format is found by itself and gives the run that was written in it."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.detection import FORMATS
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.log import Log
from holter.pipeline.replay.reading import read_log
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, LOSS_SCALE, VAL_LOSS
from tests.replay.snippets import GRADS, LOSSES, SNIPPETS, STEPS, event_file


def read(tmp_path: Path, content: bytes | str, format_name: str | None = None, **given: str) -> Log:
    path = tmp_path / "run.log"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_log(path, ColumnNames(given), format_name)


@pytest.mark.parametrize("name", SNIPPETS)
@pytest.mark.parametrize("is_gzipped", [False, True], ids=["plain", "gzip"])
def test_every_format_is_found_and_read(tmp_path: Path, name: str, is_gzipped: bool) -> None:
    snippet = SNIPPETS[name]
    log = read(tmp_path, gzip.compress(snippet.content) if is_gzipped else snippet.content)
    assert log.format == snippet.format
    assert log.steps == (STEPS if snippet.has_steps else [0, 1, 2, 3])
    assert log.metrics[LOSS] == pytest.approx(LOSSES, nan_ok=True)
    if snippet.has_grads:
        assert log.metrics[GRAD_NORM] == pytest.approx(GRADS)


def test_every_format_has_a_snippet() -> None:
    assert {snippet.format for snippet in SNIPPETS.values()} == set(FORMATS)


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_format_may_be_named(tmp_path: Path, name: str) -> None:
    log = read(tmp_path, SNIPPETS[name].content, SNIPPETS[name].format)
    assert log.num_rows == 4


def test_records_carry_what_was_logged(tmp_path: Path) -> None:
    log = read(tmp_path, "step,loss,grad_norm,val_loss\n1,2.0,,\n,,,1.5\n2,nan,inf,\n")
    first, second, third = log.records()
    assert (first.step, first.values) == (1, {LOSS: 2.0})
    assert (second.step, second.values) == (1, {VAL_LOSS: 1.5})
    assert third.step == 2
    assert math.isnan(third.values[LOSS])
    assert third.values[GRAD_NORM] == math.inf


def test_steps_that_go_back_begin_a_new_attempt(tmp_path: Path) -> None:
    log = read(tmp_path, "step,loss\n1,2\n2,2\n2,2\n1,2\n2,2\n")
    assert [record.attempt for record in log.records()] == [0, 0, 0, 1, 1]
    assert not log.is_in_order()


def test_csv_lines_that_are_none_are_set_aside(tmp_path: Path) -> None:
    log = read(tmp_path, "step,loss\n1,2.0\n\n2\n3,two\n4,2.5\nstep,loss\n5,None\n")
    assert log.steps == [1, 3, 4, 5]
    assert log.metrics[LOSS] == [2.0, None, 2.5, None]
    assert log.notes == [
        "1 × a line with more or fewer fields than there are names: set aside",
        "1 × a value that is no number: set aside",
    ]


def test_a_row_of_a_csv_is_a_row_of_the_log(tmp_path: Path) -> None:
    log = read(tmp_path, "step,loss,note\n1,2.0,a\n2,,b\n,,c\n3,2.5,d\n")
    assert log.num_rows == 4
    assert log.steps == [1, 2, 2, 3]


def test_a_half_last_json_line_is_told_and_the_rest_used(tmp_path: Path) -> None:
    log = read(tmp_path, SNIPPETS["jsonl"].content[:-20])
    assert log.num_rows == 3
    assert log.notes == ["its last line is cut short: all others were used"]


def test_a_trainer_state_that_is_cut_gives_its_whole_entries(tmp_path: Path) -> None:
    content = SNIPPETS["trainer_state"].content
    log = read(tmp_path, content[: content.rindex(b"grad_norm")])
    assert log.num_rows == 3
    assert log.notes == ["its log_history is cut short: the entries before were used"]


def test_an_event_file_whose_writer_was_killed_gives_what_it_holds(tmp_path: Path) -> None:
    log = read(tmp_path, SNIPPETS["tensorboard"].content[:-9])
    assert log.metrics[LOSS] == pytest.approx(LOSSES, nan_ok=True)
    assert log.metrics[GRAD_NORM] == [*GRADS[:3], None]
    assert log.notes == ["it is cut short or damaged: the events before were used"]


def test_tags_that_were_logged_one_after_the_other_are_put_side_by_side(tmp_path: Path) -> None:
    one, other = event_file({1: {"loss": 2.0}, 2: {"loss": 1.5}}), event_file({1: {"gnorm": 1.0}, 2: {"gnorm": 0.5}})
    log = read(tmp_path, one + other)
    assert log.steps == [1, 2]
    assert log.metrics == {LOSS: [2.0, 1.5], GRAD_NORM: [1.0, 0.5]}


def test_a_resumed_event_file_keeps_both_lives_of_a_step(tmp_path: Path) -> None:
    lives = ({1: 4.0, 2: 3.0}, {2: 2.5, 3: 2.0}, {1: 5.0})
    files = [event_file({step: {"loss": loss} for step, loss in life.items()}) for life in lives]
    log = read(tmp_path, b"".join(files))
    assert log.steps == [1, 2, 3, 1]
    assert log.metrics[LOSS] == [4.0, 2.5, 2.0, 5.0]


def test_evaluations_stand_in_rows_of_their_own(tmp_path: Path) -> None:
    log = read(tmp_path, "step 0: train loss 4.2, val loss 4.3\niter 0: loss 4.2, time 9ms\nvalidation loss: 4.0\n")
    assert log.metrics[VAL_LOSS] == [4.3, None, 4.0]
    assert log.metrics[LOSS] == [None, 4.2, None]


def test_megatron_s_validation_is_no_training_loss(tmp_path: Path) -> None:
    line = " validation loss at iteration 40 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |\n"
    log = read(tmp_path, SNIPPETS["megatron"].content + line.encode())
    assert log.metrics[VAL_LOSS] == [None, None, None, None, 2.5]
    assert log.metrics[LOSS][-1] is None


def test_an_overflow_s_loss_scale_belongs_to_the_next_row(tmp_path: Path) -> None:
    engine = "[Rank 0] step={}, skipped=1, lr=[{}], mom=[(0.9, 0.95)]\n"
    log = read(
        tmp_path,
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
        + engine.format(10, 1e-4) + engine.format(20, 2e-4) + "ppl: 20.085536923187668\n",
    )  # fmt: skip
    assert log.format == "deepspeed"
    assert log.steps == [10, 20, 20]
    assert log.metrics[LOSS_SCALE] == [32768.0, None, None]
    assert log.metrics[LEARNING_RATE] == [1e-4, 2e-4, None]
    assert log.metrics[VAL_LOSS] == [None, None, pytest.approx(3.0)]


def test_arguments_of_a_command_are_no_values(tmp_path: Path) -> None:
    log = read(tmp_path, "Running: train.py --warmup-steps 5 --grad-norm 0 --lr 0.1\nstep 1 | loss: 2.0\n")
    assert (log.steps, log.metrics) == ([1], {LOSS: [2.0]})


def test_the_accuracy_of_a_benchmark_is_a_loss_only_above_one(tmp_path: Path) -> None:
    line = ':::MLLOG {{"key": "eval_accuracy", "value": {}, "metadata": {{"samples_count": 50}}}}\n'
    log = read(tmp_path, SNIPPETS["mllog"].content + (line.format(0.7) + line.format(3.4)).encode())
    assert log.metrics[VAL_LOSS] == [None, None, None, None, 3.4]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b" \n\n\0\0", "it is empty"),
        (bytes(range(256)) * 40, "it is a binary file of no known format"),
        (b"# A title\n\nSome prose about step sizes and losses, and nothing more.\n", "it is no log of a known format"),
        (b"name,color\nx,1\ny,2\n", "no column is known as a loss or a gradient norm (there are color, name)"),
        (b"loss" * 100_000 + b",x\n" + b"1,2\n" * 10, "it is no log of a known format"),
        (b"step,loss\n" + b"1," + b"2" * 200_000, "it is no log of a known format"),
        (b'{"a": [1, 2', "it is no JSON document, or one that is cut short"),
        (b'{"a": "b"}\n{"a": "c"}\n', "no line of it holds values of a training step"),
        (b"step,loss\n1,\n2,\n", "no column is known as a loss"),
    ],
)
def test_what_is_no_log_is_refused_with_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableLog) as refused:
        read(tmp_path, content)
    assert str(refused.value).startswith(reason)
    assert "\n" not in str(refused.value)


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLog, match="No such file"):
        read_log(tmp_path / "absent.csv")
    with pytest.raises(UnreadableLog, match="it is a folder"):
        read_log(tmp_path)
