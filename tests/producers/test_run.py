"""A run over a bus that works: what is logged arrives, once, in order, merged and named."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

import numpy as np
import pytest

from holter import producers
from holter.producers import Run
from holter.producers.run import Beginning
from holter.schemas.telemetry import DataPhase, Finished, Heartbeat, Started
from tests.producers.watch import KEYRING, FakeWatch, await_


@pytest.fixture
def watch() -> FakeWatch:
    return FakeWatch()


def make(watch: FakeWatch, **settings: Any) -> Run:
    return producers.init(watch.project, watch.run, bus=watch.bus, keyring=KEYRING, environ={}, **settings)


def test_a_start_with_config_comes_first_and_a_finish_last(watch: FakeWatch) -> None:
    @dataclasses.dataclass
    class Config:
        width: int = 64
        betas: tuple[float, float] = (0.9, 0.95)

    run = make(watch, config={"model": Config(), "lr": 3e-4, "seed": None})
    run.log({"train/loss": 1.0}, step=0)
    run.finish()
    records = watch.records()
    start, finish = records[0].event, records[-1].event
    assert isinstance(start, Started)
    assert start.config == {"model.width": 64, "model.betas": "(0.9, 0.95)", "lr": 3e-4, "seed": None}
    assert start.versions["python"]
    assert start.host
    assert finish == Finished("completed")
    assert [record.seq for record in records] == list(range(len(records)))
    assert len({(record.session, record.attempt, record.rank) for record in records}) == 1


def test_values_of_a_step_are_merged_until_it_advances(watch: FakeWatch) -> None:
    run = make(watch)
    run.log({"train/loss": 1.0, "a": 1.0}, step=0)
    run.log({"a": 2.0, "b": 3.0}, step=0)
    run.log({"train/loss": 0.5}, step=1)
    run.finish()
    assert watch.values("train/loss") == {0: 1.0, 1: 0.5}
    assert watch.values("a") == {0: 2.0}
    assert watch.values("b") == {0: 3.0}


def test_without_a_step_every_call_is_one(watch: FakeWatch) -> None:
    run = make(watch)
    for value in (3.0, 2.0, 1.0):
        run.log({"train/loss": value})
    run.finish()
    assert watch.values("train/loss") == {0: 3.0, 1: 2.0, 2: 1.0}


def test_committed_steps_leave_at_once_and_take_nothing_more(watch: FakeWatch) -> None:
    run = make(watch)
    run.log({"train/loss": 1.0}, step=4, commit=True)
    await_(lambda: watch.values("train/loss") == {4: 1.0}, "the step without another")
    run.log({"late": 1.0}, step=4)
    run.log({"late": 1.0}, step=3)
    run.finish()
    assert watch.values("late") == {}
    assert run.stats()["notice_late_values"] == 2


def test_nan_and_infinities_travel_as_themselves(watch: FakeWatch) -> None:
    run = make(watch)
    run.log({"a": math.nan, "b": math.inf, "c": -math.inf}, step=1)
    run.finish()
    assert math.isnan(watch.values("a")[1])
    assert (watch.values("b")[1], watch.values("c")[1]) == (math.inf, -math.inf)


def test_bad_values_and_names_are_counted_and_left_out(watch: FakeWatch, caplog: pytest.LogCaptureFixture) -> None:
    class Angry:
        def __float__(self) -> float:
            raise RuntimeError("no")

    run = make(watch)
    bad: dict[Any, Any] = {
        "text": "a lot",
        "none": None,
        "angry": Angry(),
        "": 1.0,
        "x" * 129: 1.0,
        7: 1.0,
        "\ud800": 1,
    }
    run.log({**bad, "good": np.float32(1.5), "whole": 2, "flag": True}, step=0)
    run.log({**bad, "good": 2.5}, step=1)
    run.log(None, step=2)  # type: ignore[arg-type]
    run.log({"good": 1.0}, step=-1)
    run.log({"good": 1.0}, step="3")  # type: ignore[arg-type]
    run.finish()
    assert watch.values("good") == {0: 1.5, 1: 2.5}
    assert watch.values("whole") == {0: 2.0}
    stats = run.stats()
    assert (stats["notice_bad_value"], stats["notice_bad_name"]) == (6, 8)
    assert (stats["notice_bad_metrics"], stats["notice_bad_step"]) == (1, 2)
    assert len([line for line in caplog.messages if "is no number" in line]) == 1


def test_a_fast_loop_makes_large_batches_and_loses_nothing(watch: FakeWatch) -> None:
    run = make(watch)
    for step in range(5000):
        run.log({"train/loss": float(step), "sparse": 1.0} if step % 10 == 0 else {"train/loss": float(step)}, step)
    run.finish()
    assert watch.values("train/loss") == {step: float(step) for step in range(5000)}
    assert sorted(watch.values("sparse")) == list(range(0, 5000, 10))
    assert len(watch.batches()) < 1000
    assert run.stats()["num_dropped"] == 0


def test_what_is_open_when_a_fast_loop_pauses_is_sent(watch: FakeWatch) -> None:
    run = make(watch)
    for step in range(5):
        run.log({"train/loss": 1.0}, step, commit=True)
    await_(lambda: len(watch.values("train/loss")) == 5, "the open batch")
    run.finish()


def test_many_metrics_stay_below_the_record_limit(watch: FakeWatch) -> None:
    run = make(watch)
    names = [f"layer/{number}/{'n' * 80}" for number in range(1000)]
    for step in range(60):
        run.log(dict.fromkeys(names, 1.0), step)
    run.finish()
    assert all(len(watch.values(name)) == 60 for name in names[:3])
    assert "notice_oversized" not in run.stats()


def test_events_keep_their_place(watch: FakeWatch) -> None:
    run = make(watch)
    run.log({"train/loss": 1.0}, step=0, commit=True)
    run.event(DataPhase("epoch 2"))
    run.log({"train/loss": 2.0}, step=1, commit=True)
    run.finish()
    kinds = [type(getattr(record, "event", record)).__name__ for record in watch.records()]
    assert kinds == ["Started", "MetricBatch", "DataPhase", "MetricBatch", "Finished"]


def test_a_new_attempt_counts_anew_and_may_go_back(watch: FakeWatch) -> None:
    run = make(watch)
    run.begin(Beginning(100, last_step=0))
    run.log({"train/loss": 9.0}, step=9, commit=True)
    run.begin(Beginning(101, last_step=5))
    run.log({"train/loss": 6.0}, step=6, commit=True)
    run.finish()
    assert watch.values("train/loss", 100) == {9: 9.0}
    assert watch.values("train/loss", 101) == {6: 6.0}
    assert [record.seq for record in watch.records() if record.attempt == 101] == [0, 1, 2]


def test_nothing_is_sent_after_finish_or_in_a_forked_child(watch: FakeWatch) -> None:
    run = make(watch)
    run.log({"train/loss": 1.0}, step=0)
    child = os.fork()
    if child == 0:
        os._exit(0 if not run.enabled else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.finish()
    num_records = len(watch.records())
    run.log({"train/loss": 1.0}, step=1)
    run.finish()
    assert len(watch.records()) == num_records


def test_a_child_that_finishes_leaves_the_run_alone(watch: FakeWatch) -> None:
    run = make(watch)
    run.log({"train/loss": 1.0}, step=0)
    child = os.fork()
    if child == 0:
        run.finish()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run.enabled
    run.finish()
    assert len(watch.events(Finished)) == 1


def test_a_silent_run_beats_its_heart(watch: FakeWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holter.producers.sender._HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr("holter.producers.sender._IDLE_SECONDS", 0.01)
    run = make(watch)
    run.log({"train/loss": 1.0}, step=3, commit=True)
    run.set_phase("eval")
    beat = await_(lambda: watch.events(Heartbeat), "a heartbeat")[-1]
    assert (beat.step, beat.event) == (3, Heartbeat("eval"))
    run.finish()


def test_a_failed_block_finishes_as_failed(watch: FakeWatch) -> None:
    def fail() -> None:
        with make(watch) as run:
            run.log({"train/loss": 1.0}, step=0)
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        fail()
    assert watch.records()[-1].event == Finished("failed", "RuntimeError: boom")


@pytest.mark.torch
def test_tensors_are_taken_without_their_graph(watch: FakeWatch) -> None:
    torch = pytest.importorskip("torch")
    run = make(watch)
    run.log({"train/loss": (torch.ones((), requires_grad=True) * 2.0)}, step=0)
    run.finish()
    assert watch.values("train/loss") == {0: 2.0}


def test_other_ranks_speak_on_a_topic_of_their_own(watch: FakeWatch) -> None:
    from holter.schemas.topics import RANKS

    run = producers.init("p", "r", bus=watch.bus, environ={"RANK": "3", "WORLD_SIZE": "8"})
    run.log({"train/loss": 1.0}, step=0)
    run.finish()
    assert not watch.records()
    assert [message.key for message in watch.bus.log(RANKS)] == [b"p/r/3"]


def test_a_second_run_of_a_name_that_is_open_is_told(watch: FakeWatch, caplog: pytest.LogCaptureFixture) -> None:
    with make(watch), make(watch) as second:
        assert second.notices.counts == {"open_twice": 1}
    assert caplog.messages == [f"run {watch.run!r} is open here already: give each run a name of its own"]
    with make(watch) as third:  # the others are finished
        assert third.notices.counts == {}
