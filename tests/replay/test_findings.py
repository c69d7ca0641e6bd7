from __future__ import annotations

import json
import math
from pathlib import Path

from holter.pipeline.replay.events import event_line, write_events
from holter.pipeline.replay.findings import findings
from holter.pipeline.replay.judge import Event, judge
from holter.pipeline.replay.wording import advice_text, chance_text, steps_text
from tests.replay.runs import dying, records, spiking


def event(
    row: int, phase: str, p: float | None, action: str = "monitor", kind: str = "loss_spike", key: str = "a"
) -> Event:
    state = "recovered" if phase == "close" else "spike"
    return Event(row, row * 10, kind, phase, state, key, p, action, f"reason at {row}", None)


STORY = [
    event(5, "open", 0.9),
    event(7, "update", 0.4, "rollback", "nan"),
    event(8, "update", None),
    event(9, "update", 0.3, "lr_cut"),
    event(12, "close", 0.8),
]


def test_an_incident_is_put_together_from_its_events() -> None:
    (found,) = findings({"patient": STORY})
    assert found.kinds == ("loss_spike", "nan")
    assert (found.row, found.step, found.last_row, found.last_step) == (5, 50, 12, 120)
    assert (found.p_first, found.p_lowest, found.p_last) == (0.9, 0.3, 0.8)
    assert found.state == "recovered"


def test_the_advice_is_the_first_act() -> None:
    (found,) = findings({"patient": STORY})
    (advice,) = found.advice
    assert (advice.action, advice.step, advice.reason) == ("rollback", 70, "reason at 7")
    assert advice_text(advice) == "patient: rollback at step 70: reason at 7"


def test_of_what_was_only_watched_the_reason_is_that_of_the_worst_moment() -> None:
    watched = [event(5, "open", 0.9), event(6, "update", 0.6), event(9, "close", 0.1)]
    (found,) = findings({"patient": watched})
    assert found.advice[0].reason == "reason at 6"
    assert advice_text(found.advice[0], with_policy=False) == "monitor: reason at 6"


def test_policies_stand_side_by_side() -> None:
    other = [one._replace(action="momentum_reset" if one.row == 5 else "monitor") for one in STORY]
    (found,) = findings({"patient": STORY, "report": other})
    assert [(one.policy, one.action) for one in found.advice] == [("patient", "rollback"), ("report", "momentum_reset")]


def test_incidents_keep_their_order() -> None:
    found = findings({"patient": [event(1, "open", 0.5), event(2, "close", 0.5), event(3, "open", 0.5, key="b")]})
    assert [one.incident for one in found] == ["a", "b"]


def test_a_real_incident_tells_what_was_seen_and_its_peak() -> None:
    (found, *_) = findings({"patient": list(judge(records(spiking())))})
    assert 395 < found.onset_step <= found.step < 410
    assert found.peak > 5.0
    assert "train/" in found.seen
    assert ";" not in found.seen


def test_texts() -> None:
    (found,) = findings({"patient": STORY})
    assert steps_text(found) == "50 – 120"
    assert chance_text(found) == "0.90, lowest 0.30"
    (gone_back,) = findings({"patient": [event(7, "open", None), event(2, "close", None)]})
    assert steps_text(gone_back) == "70 on"
    assert chance_text(gone_back) == "unknown"


def test_a_line_holds_what_a_scorer_reads() -> None:
    line = json.loads(event_line(STORY[3]))
    assert line == {
        "row": 9, "step": 90, "kind": "loss_spike", "phase": "update", "state": "spike", "incident": "a",
        "p_recover": 0.3, "action": "lr_factor", "reason": "reason at 9",
    }  # fmt: skip


def test_an_unknown_probability_is_left_out() -> None:
    assert "p_recover" not in json.loads(event_line(STORY[2]))
    assert "p_recover" not in json.loads(event_line(STORY[2]._replace(p_recover=math.nan)))


def test_a_log_without_events_has_an_empty_file(tmp_path: Path) -> None:
    write_events(tmp_path / "calm.jsonl", [])
    write_events(tmp_path / "dying.jsonl", judge(records(dying())))
    assert (tmp_path / "calm.jsonl").read_text() == ""
    lines = (tmp_path / "dying.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["kind"] == "nan"
