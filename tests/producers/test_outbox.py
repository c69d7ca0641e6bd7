"""The queue between the training thread and the sender."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holter.producers.handover import Ended, Handover, Happened, Logged
from holter.producers.notices import Notices
from holter.producers.outbox import Outbox
from holter.schemas.telemetry import Heartbeat

PATIENCE_SECONDS = 10.0


def outbox(bound: int = 100) -> Outbox:
    return Outbox(Notices(), bound)


def logged(step: int) -> Logged:
    return Logged(step, 0, {}, False)


def got(box: Outbox) -> list[Handover]:
    found = []
    while (handover := box.get(0.0)) is not None:
        found.append(handover)
    return found


def test_what_is_put_comes_in_order_however_it_is_put() -> None:
    box = outbox()
    handovers = [logged(0), Ended(), logged(1), logged(2)]
    for number, handover in enumerate(handovers):
        (box.put if number % 2 else box.put_quietly)(handover)
    assert len(box) == 4
    assert got(box) == handovers


@pytest.mark.parametrize(
    ("rouse", "expected"),
    [
        (lambda box: box.put(logged(7)), logged(7)),
        (lambda box: box.put_quietly(logged(7)), logged(7)),
        (lambda box: box.wake(), None),
    ],
    ids=["put", "put_quietly", "wake"],
)
def test_one_that_waits_is_roused(rouse: Callable[[Outbox], None], expected: Logged | None) -> None:
    box = outbox()
    found: list[Handover | None] = []
    waiting = threading.Thread(target=lambda: found.append(box.get(PATIENCE_SECONDS)))
    waiting.start()
    rouse(box)
    waiting.join(PATIENCE_SECONDS / 2)
    assert found == [expected]


def test_a_ring_for_what_was_taken_already_rouses_nobody() -> None:
    box = outbox()
    box.put(logged(0))
    assert box.get(0.0) == logged(0)
    threading.Timer(0.05, box.put_quietly, [logged(1)]).start()
    assert box.get(PATIENCE_SECONDS) == logged(1)


@pytest.mark.parametrize("put", [Outbox.put, Outbox.put_quietly])
def test_a_full_one_drops_the_oldest_values_and_keeps_what_happened(put: Callable[[Outbox, Handover], None]) -> None:
    box = outbox(bound=3)
    event = Happened(Heartbeat("train"), None, 0)
    for handover in (logged(0), event, logged(1), logged(2), logged(3)):
        put(box, handover)
    assert got(box) == [event, logged(1), logged(2), logged(3)]
    assert box.num_dropped == 1


def test_a_closed_one_takes_nothing() -> None:
    box = outbox()
    box.closed = True
    box.put(logged(0))
    assert got(box) == []
