"""The recorder judges as `watch` does, spools what it heard with what it said, and goes on where it was cut off."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from holter.pipeline.bus.frames import Arrived, CloseReader, Delivered, Failed, Opened, Order, Publish, Read, Ready
from holter.pipeline.bus.memory import MemoryBus
from holter.pipeline.core.run_operator import watch
from holter.pipeline.local import session
from holter.pipeline.local.driver import Driver
from holter.pipeline.local.spool import Spool
from holter.schemas import Keyring, codec
from holter.schemas.control import Action
from holter.schemas.telemetry import GRAD_NORM, LOSS, CheckpointSaved, Finished
from holter.schemas.topics import CONTROL, DECISIONS, DLQ, HOLDS, SIGNALS, TELEMETRY, WINDOWS
from tests.core.test_run_operator import calm_rows
from tests.local.recorders import SIGNER, Clock, connect, entries, record
from tests.telemetry import ALL_EFFECTS, START_MS, Trainer

KEY = b"gpt/night"
OUTPUTS = (WINDOWS, SIGNALS, DECISIONS, CONTROL, DLQ)


def night() -> list[bytes]:
    """A run with a healthy checkpoint that is given a NaN, and ends."""
    trainer = Trainer()
    said = [trainer.event(ALL_EFFECTS)]
    said += [trainer.steps([row]) for row in calm_rows(50)]
    said.append(trainer.event(CheckpointSaved("step-49", 0.05)))
    said += [trainer.steps([row]) for row in calm_rows(120, seed=1)]
    said.append(trainer.steps([{LOSS: math.nan, GRAD_NORM: math.inf}]))
    said.append(trainer.event(Finished()))
    return said


NIGHT = night()


def published(values: list[bytes]) -> list[Order]:
    return [Publish(TELEMETRY.name, KEY, value) for value in values]


def clock() -> Clock:
    return Clock(START_MS)


def test_it_says_byte_for_byte_what_the_driver_says(tmp_path: Path) -> None:
    ticks, bus = clock(), MemoryBus(lambda: 0)
    driver = Driver(watch(SIGNER, None, 7), bus, {}, "local")
    for value in NIGHT:
        bus.append(TELEMETRY, KEY, value)
        driver.handle(bus.log(TELEMETRY)[-1], ticks())
    record([connect(tmp_path), *published(NIGHT)], clock())
    said = [each for entry in entries(tmp_path) for each in entry.said]
    expected = {topic.name: [message.value for message in bus.log(topic)] for topic in OUTPUTS}
    assert {topic.name: [each.value for each in said if each.topic == topic.name] for topic in OUTPUTS} == expected
    assert expected[CONTROL.name]
    assert [entry.value for entry in entries(tmp_path)] == NIGHT


def test_control_reaches_readers_that_were_there_and_those_that_come_later(tmp_path: Path) -> None:
    news = record(
        [
            connect(tmp_path),
            Read(1, [CONTROL.name], 0),
            Read(2, [HOLDS.name], "earliest"),
            *published(NIGHT),
            CloseReader(1),
            Publish(CONTROL.name, KEY, b"after"),
            Read(3, [CONTROL.name], "earliest"),
            Read(4, [CONTROL.name], "latest"),
        ],
        clock(),
    )
    assert news[:3] == [Ready(), Opened(1, True), Opened(2, True)]
    at_once = [message for each in news if isinstance(each, Arrived) and each.reader == 1 for message in each.messages]
    assert news[-3] == Opened(3, False)
    later = news[-2]
    assert isinstance(later, Arrived)
    assert later.messages[:-1] == at_once
    assert news[-1] == Opened(4, True)
    keyring = Keyring(keys={SIGNER.key_id: SIGNER})
    actions = [codec.control.decode(keyring.open(message[5] or b"", "issuer")) for message in at_once]
    assert any(isinstance(action, Action) and action.issuer_epoch == 7 for action in actions)
    assert [each.count for each in news if isinstance(each, Delivered)] == list(range(1, len(NIGHT) + 2))


def test_offline_it_keeps_everything_and_says_nothing(tmp_path: Path) -> None:
    record([connect(tmp_path, {}), *published(NIGHT)], clock())
    assert [entry.value for entry in entries(tmp_path)] == NIGHT
    assert not any(entry.said for entry in entries(tmp_path))
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("keeps_state", [True, False])
def test_cut_off_anywhere_it_says_in_the_end_what_one_that_was_not_says(
    tmp_path: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch, keeps_state: bool
) -> None:
    monkeypatch.setattr(session, "STATE_EVERY_ENTRIES", 10)
    if not keeps_state:
        monkeypatch.setattr(session.Session, "keep_state", lambda _: None)
    ticks = clock()
    for first in range(0, len(NIGHT), 35):
        resent = NIGHT[max(0, first - 2) : first + 35]  # the trainer heard nothing of the last two
        ticks.now = START_MS + first - len(NIGHT[max(0, first - 2) : first])
        record([connect(tmp_path / "cut"), *published(resent)], ticks)
    said = [[each for entry in entries(folder) for each in entry.said] for folder in (recorded, tmp_path / "cut")]
    assert said[0] == said[1]
    assert said[0]


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_later_recorder_hands_on_what_this_session_said_and_nothing_of_earlier_ones(
    tmp_path: Path, recorded: Path, keeps_state: bool
) -> None:
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    said = [each.value for entry in entries(tmp_path) for each in entry.said if each.topic == CONTROL.name]
    if not keeps_state:
        (tmp_path / "state").unlink()
    late = Read(1, [CONTROL.name], "earliest")
    arrived = record([connect(tmp_path), late], clock())[-1]
    assert isinstance(arrived, Arrived)
    assert [message[5] for message in arrived.messages] == said
    if not keeps_state:
        (tmp_path / "state").unlink()
    other = {"key_id": "local-2", "secret": "22" * 32, "epoch": 8}
    assert record([connect(tmp_path, other), late], clock()) == [Ready(), Opened(1, True)]


@pytest.mark.parametrize("damage", [b"", b"\0" * 50, b"not a state"])
def test_a_damaged_state_costs_only_time(tmp_path: Path, recorded: Path, damage: bytes) -> None:
    ticks = clock()
    record([connect(tmp_path / "cut"), *published(NIGHT[:100])], ticks)
    (tmp_path / "cut" / "state").write_bytes(damage)
    record([connect(tmp_path / "cut"), *published(NIGHT[100:])], ticks)
    assert entries(tmp_path / "cut") == entries(recorded)


def test_an_order_that_is_cut_off_ends_it_and_an_empty_one_too(tmp_path: Path) -> None:
    record([connect(tmp_path / "a"), *published(NIGHT[:3])], clock(), tail=b"\0\0\1\0half")
    assert len(entries(tmp_path / "a")) == 3
    news = record([connect(tmp_path / "b"), *published(NIGHT[:3])], clock(), tail=b"\0\0\0\0" + b"never read")
    assert news[-1] == Delivered(3)
    assert len(entries(tmp_path / "b")) == 3
    assert record([], clock()) == []


def test_a_torn_tail_is_cut_off_with_a_word_in_the_log(tmp_path: Path) -> None:
    record([connect(tmp_path), *published(NIGHT[:3])], clock())
    with (tmp_path / "records.spool").open("ab") as stream:
        stream.write(b"torn")
    record([connect(tmp_path), *published(NIGHT[3:5])], clock())
    assert [entry.value for entry in entries(tmp_path)] == NIGHT[:5]
    assert "the last 4 bytes" in (tmp_path / "log.txt").read_text()


def test_a_spool_in_use_or_of_another_kind_is_said_in_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holter.pipeline.local.recorder._LOCK_SECONDS", 0.0)
    other = Spool.open(tmp_path / "records.spool")
    (failed,) = record([connect(tmp_path)], clock())
    assert isinstance(failed, Failed)
    assert "written by another process" in failed.detail
    other.close()
    (tmp_path / "records.spool").write_bytes(b"a diary, longer than the magic is")
    (failed,) = record([connect(tmp_path)], clock())
    assert isinstance(failed, Failed)
    assert "no spool" in failed.detail


def test_a_full_disk_is_said_and_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "append", full)
    news = record([connect(tmp_path), *published(NIGHT[:3])], clock())
    assert news[0] == Ready()
    assert isinstance(news[1], Failed)
    assert "No space left" in news[1].detail
    assert len(news) == 2


def test_a_defect_of_the_stages_costs_the_judgement_and_not_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(session.Judge, "handle", fail)
    record([connect(tmp_path), *published(NIGHT)], clock())
    assert [entry.value for entry in entries(tmp_path)] == NIGHT
    assert "judges no more" in (tmp_path / "log.txt").read_text()
    monkeypatch.undo()
    record([connect(tmp_path), *published(NIGHT[-1:])], clock())
    assert not entries(tmp_path)[-1].said
