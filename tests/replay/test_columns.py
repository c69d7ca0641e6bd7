from __future__ import annotations

import pytest

from holter.pipeline.replay.columns import STEP, ColumnNames
from holter.pipeline.replay.errors import UnreadableLog
from holter.schemas.telemetry import GRAD_NORM, LOSS, VAL_LOSS


def chosen(num_values: dict[str, int], **given: str) -> dict[str, str]:
    return ColumnNames(given).choose(num_values, num_values).by_role


def test_the_logged_loss_is_preferred_to_the_one_at_evaluations() -> None:
    assert chosen({"train/loss": 47, "loss": 699, "validation/loss": 47}) == {LOSS: "loss", VAL_LOSS: "validation/loss"}


def test_of_columns_that_are_full_alike_the_better_named_is_taken() -> None:
    assert chosen({"train_loss": 100, "loss": 99})[LOSS] == "loss"
    assert chosen({"_step": 100, "global_step": 90, "loss": 90})[STEP] == "global_step"


def test_a_summary_at_the_end_is_not_the_loss() -> None:
    assert chosen({"loss": 435, "train_loss": 1})[LOSS] == "loss"


def test_a_name_that_only_looks_like_a_loss_is_a_guess_and_comes_last() -> None:
    names = ColumnNames()
    assert names.choose({"critic_loss": 900, "loss": 10}, []).by_role[LOSS] == "loss"
    guess = names.choose({"my_loss_v2": 10, "loss_weight": 10}, [])
    assert guess.by_role == {LOSS: "my_loss_v2"}
    assert guess.notes == ["column 'my_loss_v2' was taken for the loss; --map loss=NAME takes another"]


def test_of_the_runs_in_a_chart_one_is_read_and_the_user_told() -> None:
    columns = {"a - train/loss": 10, "b - train/loss": 9, "c - train/loss": 2}
    chosen = ColumnNames().choose(columns, columns)
    assert chosen.by_role == {LOSS: "a - train/loss"}
    assert chosen.notes[0].startswith("column 'a - train/loss' was taken for the loss, not b - train/loss;")
    assert ColumnNames({"loss": "b - train/loss"}).choose(columns, columns) == ({LOSS: "b - train/loss"}, [])


@pytest.mark.parametrize("name", ["loss_scale", "val_loss", "test/loss", "loss_ema", "best_loss", "eval_my_loss"])
def test_what_is_no_training_loss_is_not_taken_for_one(name: str) -> None:
    assert ColumnNames().role(name) != LOSS


def test_given_names_come_before_all_others() -> None:
    by_role = chosen({"loss": 100, "aux": 50, "gn": 50, "it": 50}, loss="aux", grad_norm="gn")
    assert by_role == {LOSS: "aux", GRAD_NORM: "gn", STEP: "it"}


def test_a_given_name_is_found_however_it_is_written() -> None:
    assert chosen({"Train/My Loss": 5}, loss="train/my_loss") == {LOSS: "Train/My Loss"}


def test_a_given_column_must_be_there_and_hold_numbers() -> None:
    with pytest.raises(UnreadableLog, match="it has no column 'aux'; it has loss, step"):
        chosen({"loss": 3, "step": 3}, loss="aux")
    with pytest.raises(UnreadableLog, match="its column 'loss' holds no numbers"):
        chosen({"loss": 0, "step": 3}, loss="loss")


def test_a_log_without_anything_to_judge_says_what_it_has() -> None:
    with pytest.raises(UnreadableLog, match=r"\(there are a00, .* and 8 more\): name it with --map loss=NAME"):
        chosen({f"a{number:02d}": 1 for number in range(20)})


def test_bounds_of_a_chart_s_points_are_not_read() -> None:
    assert ColumnNames().role("run - train/loss__MIN") is None
    assert ColumnNames().role("run - train/loss") == LOSS
