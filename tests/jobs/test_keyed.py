from __future__ import annotations

import pytest

pytest.importorskip("pyflink")

from holter.jobs import frames
from holter.jobs.frames import Frame
from holter.jobs.keyed import KeyedOperator, OperatorSpec
from holter.pipeline.core.journal import MAX_INPUTS
from holter.schemas import codec
from tests.jobs.echo import ECHOES, TIMER_DELAY_MS, open_echoes
from tests.jobs.fake_flink import FakeFlink

DEAD_LETTERS = 1


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


class Runtime:
    """Feeds an operator as Flink does; ``restart`` makes a new one over the same state."""

    def __init__(self, max_kept_keys: int = 100) -> None:
        self.flink = FakeFlink()
        self.clock = Clock()
        self.max_kept_keys = max_kept_keys
        self.restart()

    def restart(self) -> None:
        spec = OperatorSpec(
            open_echoes, {"in-a": "a", "in-b": "b"}, DEAD_LETTERS, "echo", self.max_kept_keys, self.clock
        )
        self.operator = KeyedOperator(spec)
        self.operator.open(self.flink)

    def send_together(self, key: str, *values: bytes) -> list[tuple[int, bytes, bytes]]:
        self.flink.key = key
        gathered = [frames.build(Frame(0, "in-a", 0, 0, 0, key.encode(), value, len(value))) for value in values]
        answers = self.operator.process_element(frames.gather(*gathered), self.flink)
        return [frames.parse_output(out) for out in answers or ()]

    def send(self, key: str, value: bytes, topic: str = "in-a", flags: int = 0) -> list[tuple[int, bytes, bytes]]:
        self.flink.key = "" if flags else key
        frame = frames.build(Frame(flags, topic, 0, 0, 0, key.encode(), value, len(value)))
        answers = self.operator.process_element(frames.gather(frame), self.flink)
        return [frames.parse_output(out) for out in answers or ()]

    def fire(self, key: str, timestamp_ms: int) -> list[tuple[int, bytes, bytes]]:
        self.flink.timers.remove((key, timestamp_ms))
        self.flink.key = key
        self.clock.now_ms = max(self.clock.now_ms, timestamp_ms)
        return [frames.parse_output(out) for out in self.operator.on_timer(timestamp_ms, self.flink) or ()]


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def echoes(runtime: Runtime, key: str, num: int) -> list[bytes]:
    return [value for number in range(num) for _, _, value in runtime.send(key, b"%d" % number)]


def test_record_reaches_its_keys_operator_with_the_topics_base_name(runtime: Runtime) -> None:
    assert runtime.send("p/r", b"x", "in-b")[0][:2] == (ECHOES, b"p/r")
    assert runtime.send("p/r", b"y", "in-a")[0][2].startswith(b"a/y:2:")
    assert runtime.send("p/s", b"z", "in-a")[0][2].startswith(b"a/z:1:")


@pytest.mark.parametrize("num", [1, MAX_INPUTS - 1, MAX_INPUTS, MAX_INPUTS + 1, 3 * MAX_INPUTS + 5])
def test_restart_goes_on_as_if_nothing_had_happened(runtime: Runtime, num: int) -> None:
    undisturbed = echoes(Runtime(), "p/r", num + 1)
    echoes(runtime, "p/r", num)
    runtime.restart()
    assert runtime.send("p/r", b"%d" % num)[0][2] == undisturbed[-1]


@pytest.mark.parametrize("num", [1, MAX_INPUTS - 1, MAX_INPUTS, 3 * MAX_INPUTS + 5])
def test_records_that_came_together_are_told_from_nothing_else(runtime: Runtime, num: int) -> None:
    undisturbed = echoes(Runtime(), "p/r", num + 2)
    values = [b"%d" % number for number in range(num)]
    assert [value for _, _, value in runtime.send_together("p/r", *values)] == undisturbed[:num]
    runtime.restart()
    assert [value for _, _, value in runtime.send_together("p/r", b"%d" % num)] == undisturbed[num : num + 1]
    runtime.restart()
    assert [value for _, _, value in runtime.send("p/r", b"%d" % (num + 1))] == undisturbed[num + 1 :]


def test_refused_record_among_others_is_set_aside_alone(runtime: Runtime) -> None:
    undisturbed = echoes(Runtime(), "p/r", 3)
    first, letter, second = runtime.send_together("p/r", b"0", b"refuse", b"1")
    assert [first[2], second[2]] == undisturbed[:2]
    assert letter[0] == DEAD_LETTERS
    runtime.restart()
    assert runtime.send("p/r", b"2")[0][2] == undisturbed[2]


def test_a_defect_sets_its_record_aside_and_is_not_met_again(runtime: Runtime) -> None:
    first, letter, told, second = runtime.send_together("p/r", b"0", b"break", b"1")
    assert (letter[0], codec.dead_letters.decode(letter[2]).reason) == (DEAD_LETTERS, "defect")
    assert [echo[2].split(b":")[:2] for echo in (first, told, second)] == [
        [b"a/0", b"1"],
        [b"broken", b"2"],
        [b"a/1", b"3"],
    ]
    assert not any(runtime.flink.lists.values())
    runtime.restart()
    assert runtime.send("p/r", b"2")[0][2].startswith(b"a/2:4:")


def test_records_that_came_together_are_written_down_once(runtime: Runtime) -> None:
    runtime.send_together("p/r", b"0", b"1", b"2")
    assert [len(entries) for entries in runtime.flink.lists.values()] == [1]


def test_dropped_keys_come_back_from_state() -> None:
    small, large = Runtime(max_kept_keys=2), Runtime()
    for number in range(200):
        key = f"p/r{number % 3}"
        assert small.send(key, b"%d" % number) == large.send(key, b"%d" % number)


def test_key_in_use_is_not_the_one_dropped() -> None:
    runtime = Runtime(max_kept_keys=2)
    runtime.send("p/often", b"x")
    for number in range(5):
        runtime.send(f"p/r{number}", b"x")
        before = runtime.flink.num_reads
        runtime.send("p/often", b"x")
        assert runtime.flink.num_reads == before


def test_flagged_frame_is_set_aside(runtime: Runtime) -> None:
    ((topic, key, value),) = runtime.send("k" * 400, b"x", flags=frames.KEY_TOO_LONG)
    assert (topic, key) == (DEAD_LETTERS, b"k" * frames.MAX_OUTPUT_KEY_BYTES)
    assert codec.dead_letters.decode(value).reason == "wrong_key"
    assert runtime.flink.num_dead_letters == 1
    assert not runtime.flink.values
    assert not runtime.flink.lists


def test_timer_fires_once_and_survives_a_restart(runtime: Runtime) -> None:
    runtime.send("p/r", b"timer")
    due_ms = 1_000 + TIMER_DELAY_MS
    assert runtime.flink.timers == {("p/r", due_ms)}
    runtime.restart()
    assert runtime.fire("p/r", due_ms)[0][2].startswith(b"timer:2:")
    assert not runtime.flink.timers


def test_later_deadline_keeps_the_timer_and_sets_it_anew_when_it_fires(runtime: Runtime) -> None:
    runtime.send("p/r", b"timer")
    runtime.clock.now_ms = 1_100
    runtime.send("p/r", b"timer")
    assert runtime.flink.timers == {("p/r", 1_000 + TIMER_DELAY_MS)}
    assert runtime.fire("p/r", 1_000 + TIMER_DELAY_MS) == []
    assert runtime.flink.timers == {("p/r", 1_100 + TIMER_DELAY_MS)}
    assert len(runtime.fire("p/r", 1_100 + TIMER_DELAY_MS)) == 1


def test_earlier_deadline_replaces_the_timer(runtime: Runtime) -> None:
    runtime.send("p/r", b"timer")
    runtime.clock.now_ms = 500
    runtime.restart()
    runtime.send("p/r", b"timer")
    assert runtime.flink.timers == {("p/r", 500 + TIMER_DELAY_MS)}


def test_refused_record_is_set_aside_with_its_position_and_changes_nothing(runtime: Runtime) -> None:
    undisturbed = Runtime()
    assert runtime.send("p/r", b"1") == undisturbed.send("p/r", b"1")
    ((topic, key, value),) = runtime.send("p/r", b"refuse", "in-b")
    letter = codec.dead_letters.decode(value)
    assert (topic, key, letter.topic, letter.reason, letter.value) == (1, b"p/r", "in-b", "malformed", b"refuse")
    runtime.restart()
    assert runtime.send("p/r", b"2") == undisturbed.send("p/r", b"2")


def test_key_that_is_over_leaves_nothing_behind_and_may_begin_again(runtime: Runtime) -> None:
    first = runtime.send("p/r", b"end")
    runtime.fire("p/r", 1_000 + TIMER_DELAY_MS)
    assert not runtime.flink.values
    assert not runtime.flink.lists
    assert not runtime.flink.timers
    assert runtime.send("p/r", b"end") == first
