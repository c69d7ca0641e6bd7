from __future__ import annotations

import math
from pathlib import Path

import pytest

from holter.pipeline.bus.memory import MemoryBus
from holter.pipeline.core.decide.policy import MONITOR, PRESETS, Choice, Situation
from holter.pipeline.core.decide.settings import CostSettings
from holter.pipeline.core.operator import KeyedState
from holter.pipeline.core.run_operator import SIGNALS
from holter.pipeline.local.driver import Driver
from holter.pipeline.replay.judge import CHECKPOINT_AGE_STEPS, Event, judge
from holter.pipeline.replay.replay import replay
from holter.schemas import encode, topics
from holter.schemas.signals import Signal
from holter.schemas.telemetry import GRAD_NORM, Finished
from tests.replay.runs import Row, calm, csv_of, dying, falling, records, spiking
from tests.telemetry import START_MS, Trainer


def live_signals(rows: list[Row]) -> list[Signal]:
    """What the stages say of a run that is sent step by step and ends."""
    bus, states, trainer = MemoryBus(lambda: START_MS), dict[str, KeyedState](), Trainer()
    driver = Driver(SIGNALS, bus, states)
    for value in [*(trainer.steps([row]) for row in rows), trainer.event(Finished())]:
        bus.append(topics.TELEMETRY, b"gpt/night", value)
        driver.poll(trainer.now())
    decoded = [topics.SIGNALS.decoder.decode(message.value or b"") for message in bus.log(topics.SIGNALS)]
    return [signal for signal in decoded if isinstance(signal, Signal)]


@pytest.mark.parametrize("rows", [spiking(), dying(), calm(300), falling()], ids=["spike", "nan", "calm", "new level"])
def test_a_replayed_run_is_told_as_the_live_one(rows: list[Row]) -> None:
    events = list(judge(records(rows), project="gpt", run="night"))
    signals = [event.signal for event in events if event.signal is not None]
    assert [encode(signal) for signal in signals] == [encode(signal) for signal in live_signals(rows)]


def test_these_runs_do_have_incidents() -> None:
    assert next(judge(records(dying()))).kind == "nan"
    assert {event.phase for event in judge(records(spiking()))} >= {"open", "close"}
    assert list(judge(records(calm(300)))) == []


def test_an_event_says_what_its_signal_says() -> None:
    for event in judge(records(spiking())):
        signal = event.signal
        assert signal is not None
        assert event.step == event.row == signal.step
        assert event[2:7] == (signal.kind, signal.phase, signal.state, signal.incident, signal.p_recover)


def test_a_healing_spike_is_watched() -> None:
    assert {event.action for event in judge(records(spiking()))} == {MONITOR}


def test_a_run_that_is_not_finite_is_taken_back_once() -> None:
    events = list(judge(records(dying(num_rows=360, at=300))))
    acts = [event for event in events if event.action != MONITOR]
    assert [(event.row, event.action) for event in acts] == [(300, "rollback")]
    assert acts[0].reason == "a non-finite value may have reached the weights"


@pytest.mark.parametrize("applied", [True, False])
def test_gradients_are_in_the_weights_only_where_their_steps_were_taken(applied: bool) -> None:
    rows = calm(330)
    rows[310:] = [{**row, GRAD_NORM: math.nan} for row in rows[310:]]
    steps = [record._replace(applied=applied or record.step < 310) for record in records(rows)]
    reasons = {event.reason for event in judge(steps)}
    assert ("a non-finite value may have reached the weights" in reasons) is applied


def test_losses_that_stay_non_finite_come_from_the_weights_though_no_step_was_taken() -> None:
    steps = [record._replace(applied=record.step < 300) for record in records(dying(num_rows=312, at=300))]
    acts = [event for event in judge(steps, "expected-cost") if event.action != MONITOR]
    assert (acts[0].row, acts[0].action) == (299 + CostSettings().non_finite_steps, "rollback")


def test_steps_need_not_begin_at_the_row() -> None:
    events = list(judge(records(dying(), first_step=5_000)))
    assert (events[0].row, events[0].step) == (300, 5_300)


def test_the_end_of_a_log_ends_what_is_open() -> None:
    last = list(judge(records(dying(num_rows=320, at=300))))[-1]
    assert (last.row, last.phase, last.state, last.action) == (319, "close", "lost", MONITOR)


def test_two_runs_in_one_log_have_incidents_of_their_own() -> None:
    one, other = records(dying(num_rows=450, at=300)), records(dying(num_rows=450, at=300), attempt=2)
    opened = [event for event in judge([*one, *other]) if event.phase == "open"]
    assert [event.row for event in opened] == [300, 750]
    assert len({event.incident for event in opened}) == 2


def with_policy(monkeypatch: pytest.MonkeyPatch, choose: dict[bool, str]) -> list[Event]:
    """Events of a spike under a policy that chooses by whether the step is even."""

    def policy(situation: Situation) -> Choice:
        return Choice(choose[situation.step % 2 == 0], (), f"step {situation.step}")

    monkeypatch.setitem(PRESETS, "test", policy)
    return list(judge(records(spiking()), policy="test"))


def test_a_choice_that_stays_is_acted_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    events = with_policy(monkeypatch, {True: "lr_cut", False: "lr_cut"})
    for incident in {event.incident for event in events}:
        actions = [event.action for event in events if event.incident == incident]
        assert actions == ["lr_cut", *[MONITOR] * (len(actions) - 1)]


def test_a_choice_that_changes_is_told_where_no_signal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    events = with_policy(monkeypatch, {True: "stop", False: MONITOR})
    silent = [event for event in events if event.signal is None]
    assert silent
    for event in silent:
        assert event.action == ("stop" if event.step % 2 == 0 else MONITOR)
        assert event.reason == f"step {event.step}"
    rows = [event.row for event in events]
    assert rows == sorted(rows)


def test_a_checkpoint_is_presumed_before_the_onset(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Situation] = []

    def policy(situation: Situation) -> Choice:
        seen.append(situation)
        return Choice(MONITOR, (), "")

    monkeypatch.setitem(PRESETS, "test", policy)
    list(judge(records(dying()), policy="test"))
    checkpoint = seen[0].checkpoint
    assert checkpoint is not None
    assert checkpoint.step == seen[0].incident.onset_step - CHECKPOINT_AGE_STEPS


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no policy 'hasty'"):
        list(judge([], policy="hasty"))


def test_a_file_is_judged_as_the_records_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(csv_of(spiking()))
    told = [(event.row, event.kind, event.phase, event.p_recover, event.reason) for event in replay(path).events]
    assert told == [(event.row, event.kind, event.phase, event.p_recover, event.reason)
                    for event in judge(records(spiking()))]  # fmt: skip
