"""A sync sends each record once, not live, and goes on where it was cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holter.pipeline.bus import BusError
from holter.pipeline.bus.memory import MemoryBus, MemoryPublisher
from holter.pipeline.core.run_operator import watch
from holter.pipeline.local import sync
from holter.pipeline.local.driver import Driver
from holter.pipeline.local.run_folder import RunFolder, find_run_folders
from holter.pipeline.local.spool import SpoolError
from holter.pipeline.local.sync import Position, SyncInUse, num_bytes_unsent, sync_run
from holter.schemas import codec
from holter.schemas.telemetry import LOSS
from holter.schemas.topics import DECISIONS, SIGNALS, TELEMETRY, TOPICS, WINDOWS, Topic
from tests.local.recorders import SIGNER, connect, record
from tests.local.test_recorder import KEY, NIGHT, clock, published
from tests.telemetry import Trainer


class FailingPublisher(MemoryPublisher):
    """Takes so many messages and breaks; what it took is delivered, and not acknowledged."""

    def __init__(self, bus: MemoryBus, num_taken: int) -> None:
        super().__init__(bus)
        self._left = num_taken

    def publish(self, topic: Topic, key: bytes, value: bytes) -> None:
        if self._left == 0:
            raise BusError("no Kafka at nowhere:9092", retriable=True)
        self._left -= 1
        super().publish(topic, key, value)


class DeafPublisher(MemoryPublisher):
    def flush(self, timeout_seconds: float) -> bool:
        return False


@pytest.fixture
def folder(tmp_path: Path, recorded: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(recorded, tmp_path / "run")))


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(lambda: 0)


def sent(bus: MemoryBus) -> list[bytes]:
    return [message.value or b"" for message in bus.log(TELEMETRY)]


def test_what_the_trainer_said_is_sent_as_not_live_and_nothing_else(folder: RunFolder, bus: MemoryBus) -> None:
    report = sync_run(folder, bus.publisher("sync"))
    records = [codec.telemetry.decode(value) for value in sent(bus)]
    originals = [codec.telemetry.decode(value) for value in NIGHT]
    assert [(each.seq, type(each), each.live) for each in records] == [
        (each.seq, type(each), False) for each in originals
    ]
    assert {message.key for message in bus.log(TELEMETRY)} == {KEY}
    assert not any(bus.log(topic) for topic in TOPICS if topic is not TELEMETRY)
    assert (report.num_sent, report.num_unreadable, report.num_bytes_left) == (len(NIGHT), 0, 0)


def test_a_second_sync_sends_nothing_and_a_run_that_grew_sends_the_rest(folder: RunFolder, bus: MemoryBus) -> None:
    sync_run(folder, bus.publisher("sync"))
    assert num_bytes_unsent(folder) == 0
    assert sync_run(folder, bus.publisher("sync")).num_sent == 0
    assert len(sent(bus)) == len(NIGHT)
    later = Trainer(attempt=2, step=500)
    record([connect(folder.path), *published([later.steps([{LOSS: 1.0}])])], clock())
    assert num_bytes_unsent(folder) > 0
    assert sync_run(folder, bus.publisher("sync")).num_sent == 1


@pytest.mark.parametrize("num_taken", [0, 1, 9, 10, 11, 100])
def test_cut_off_it_repeats_nothing_that_is_visible(
    folder: RunFolder, bus: MemoryBus, num_taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "ACKNOWLEDGE_EVERY", 10)
    with pytest.raises(BusError):
        sync_run(folder, FailingPublisher(bus, num_taken))
    sync_run(folder, bus.publisher("sync"))
    whole = MemoryBus(lambda: 0)
    position = folder.synced.read_bytes()
    folder.synced.unlink()
    sync_run(folder, whole.publisher("sync"))
    assert folder.synced.read_bytes() == position
    assert len(sent(bus)) - len(sent(whole)) == num_taken % 10  # what was delivered and not acknowledged
    assert list(dict.fromkeys(sent(bus))) == sent(whole)  # the same bytes again
    assert judged(bus) == judged(whole)


def judged(bus: MemoryBus) -> list[list[bytes | None]]:
    """What `watch` says of what was sent."""
    said = MemoryBus(lambda: 0)
    driver = Driver(watch(SIGNER, None, 1), said, {})
    for message in bus.log(TELEMETRY):
        driver.handle(message, 10**13)
    return [[message.value for message in said.log(topic)] for topic in (WINDOWS, SIGNALS, DECISIONS)]


def test_watch_says_the_same_incidents_and_windows_again_under_the_same_ids(folder: RunFolder, bus: MemoryBus) -> None:
    sync_run(folder, bus.publisher("sync"))
    again = [topic.decoder.decode(value or b"") for topic, values in zip((WINDOWS, SIGNALS), judged(bus), strict=False)
             for value in values]  # fmt: skip
    spooled = [each for entry in sync.SpoolReader(folder.spool) for each in entry.said]
    topics = {topic.name: topic for topic in (WINDOWS, SIGNALS)}
    before = [topics[each.topic].decoder.decode(each.value) for each in spooled if each.topic in topics]
    assert {each.id for each in again} == {each.id for each in before}
    assert len(again) == len(before) > 0


def test_a_bus_that_acknowledges_nothing_is_said_and_moves_nothing(
    folder: RunFolder, bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BusError, match="no acknowledgement within 30 s"):
        sync_run(folder, DeafPublisher(bus))
    assert sync_run(folder, bus.publisher("sync")).num_sent == len(NIGHT)


def test_what_was_spooled_twice_is_sent_once(tmp_path: Path, bus: MemoryBus) -> None:
    record([connect(tmp_path), *published(NIGHT[:50])], clock())
    record([connect(tmp_path), *published(NIGHT[48:60])], clock())
    assert sync_run(RunFolder(tmp_path), bus.publisher("sync")).num_sent == 60


def test_what_cannot_be_read_is_counted_and_left_out(folder: RunFolder, bus: MemoryBus) -> None:
    record([connect(folder.path), *published([b"\xc1 not a record"])], clock())
    with folder.spool.open("ab") as stream:
        stream.write(b"torn")
    report = sync_run(folder, bus.publisher("sync"))
    assert (report.num_sent, report.num_unreadable, report.num_bytes_left) == (len(NIGHT), 1, 4)


def test_one_sync_at_a_time(folder: RunFolder, bus: MemoryBus) -> None:
    with Position.locked(folder.synced), pytest.raises(SyncInUse, match="another sync"):
        sync_run(folder, bus.publisher("sync"))


@pytest.mark.parametrize("text", ["", "nonsense", "9" * 20])
def test_a_position_of_no_use_is_the_beginning(folder: RunFolder, bus: MemoryBus, text: str) -> None:
    folder.synced.write_text(text)
    assert num_bytes_unsent(folder) == folder.spool.stat().st_size
    assert sync_run(folder, bus.publisher("sync")).num_sent == len(NIGHT)


def test_progress_adds_up_to_the_spool(folder: RunFolder, bus: MemoryBus) -> None:
    steps: list[int] = []
    sync_run(folder, bus.publisher("sync"), steps.append)
    assert sum(steps) == pytest.approx(folder.spool.stat().st_size, abs=20)
    assert min(steps) > 0


def test_runs_are_found_below_folders_each_once(tmp_path: Path) -> None:
    for name in ("b/2", "a/1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "records.spool").touch()
    found = find_run_folders([tmp_path, tmp_path / "a" / "1", tmp_path / "missing"])
    assert [folder.path.name for folder in found] == ["1", "2"]
    with pytest.raises(SpoolError):
        sync_run(found[0], MemoryBus(lambda: 0).publisher("sync"))
