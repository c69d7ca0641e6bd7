"""The decision tree: by use, size, history and cost."""

from __future__ import annotations

from typing import Any

import pytest

from holter.pipeline.core.advise.needs import History, Needs, parameters_of
from holter.pipeline.core.advise.selection import Advice, advise


def names(advice: Advice) -> list[str]:
    return [pick.stabiliser.name for pick in advice.picks]


def advised(history: History | None = None, billions: float = 1.0, **needs: Any) -> list[str]:
    return names(advise(Needs(billions * 1e9, **needs), history))


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"use": "prototype"}, ["GlobalGC", "monitor"]),
        ({"billions": 0.1}, ["GlobalGC"]),
        ({"billions": 7.0}, ["AdaGC", "rollback"]),
        ({"billions": 13.0, "optimizer": "sgd"}, ["AGC", "rollback"]),
        ({"billions": 69.9}, ["AdaGC", "rollback"]),
        ({"billions": 70.0, "num_stages": 8}, ["SPAM", "MSign", "CheckFree", "rollback"]),
        ({"use": "research"}, ["SPAM", "detailed logs"]),
        ({"billions": 7.0, "use": "reliability"}, ["AdaGC", "rollback", "layered detection", "frequent checkpoints"]),
    ],
)
def test_size_and_use_choose_what_to_begin_with(needs: dict[str, Any], expected: list[str]) -> None:
    assert advised(**needs) == expected


def test_what_cannot_work_in_the_job_is_named_with_its_reason() -> None:
    advice = advise(Needs(70e9, num_stages=2, optimizer="sgd"), None)
    assert names(advice) == ["ZClip", "MSign", "rollback"]
    reasons = {pick.stabiliser.name: pick.why for pick in advice.against}
    assert reasons.keys() == {"SPAM", "CheckFree"}
    assert "two stages" in reasons["CheckFree"]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History(20_000), ["GlobalGC"]),
        (History(20_000, num_gradient=3), ["ZClip"]),
        (History(20_000, num_update=1), ["GlobalGC", "Clippy", "rollback"]),
        (History(20_000, num_loss=4), ["GlobalGC", "data skip"]),
        (History(20_000, num_nonfinite=1, num_lost=1), ["GlobalGC", "nan_guard", "rollback"]),
    ],
)
def test_the_cure_fits_what_moved_first(history: History, expected: list[str]) -> None:
    assert advised(history) == expected


def test_one_optimizer_is_chosen_at_most() -> None:
    advice = advise(Needs(70e9, num_stages=4), History(1000, num_update=2))
    assert "Clippy" not in names(advice)
    assert "Clippy" in {pick.stabiliser.name for pick in advice.against}


def test_a_short_history_without_incidents_is_said_to_be_short() -> None:
    def questions(num_steps: int) -> set[str]:
        return {question for question, _ in advise(Needs(1e9), History(num_steps)).path}

    assert questions(500) - questions(10_000) == {"Is that long enough to tell?"}


def test_dear_steps_are_gone_back_for() -> None:
    assert advised(usd_per_month=999.0) == ["GlobalGC"]
    assert advised(usd_per_month=1000.0) == ["GlobalGC", "rollback"]
    assert advised(usd_per_month=10_001.0) == ["GlobalGC", "rollback", "frequent checkpoints"]
    dear = advise(Needs(1e9, usd_per_month=2e4, save_seconds=60.0, mtbf_hours=3.1), None)
    assert "every 19.3 minutes loses least" in dear.picks[-1].why


@pytest.mark.parametrize("text", ["", "B", "seven", "-1B", "nan", "0"])
def test_what_is_no_number_of_parameters_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number of parameters"):
        parameters_of(text)
