"""What is known of every checkpoint, and that it survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.producers.torch.checkpoint_ledger import CheckpointLedger, Entry

pytestmark = pytest.mark.torch


def always(entry: Entry) -> bool:
    return True


def states(ledger: CheckpointLedger) -> dict[str, str]:
    return {entry.name: entry.state for entry in ledger.entries}


def ledger_of(folder: Path | None, *steps: int) -> CheckpointLedger:
    ledger = CheckpointLedger(folder)
    for step in steps:
        ledger.add(f"s{step}", 1, step)
    return ledger


def test_the_newest_healthy_one_is_pinned(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, 10, 20, 30)
    ledger.verify("s10")
    ledger.verify("s20")
    assert ledger.heal("s10", always)
    assert states(ledger) == {"s10": "pinned", "s20": "verified", "s30": "new"}
    ledger.heal("s20", always)
    assert states(ledger) == {"s10": "healthy", "s20": "pinned", "s30": "new"}
    ledger.verify("s20")
    assert states(ledger)["s20"] == "pinned"


def test_what_is_damaged_is_never_healthy_again_and_gives_its_pin_to_the_next_older(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, 10, 20)
    ledger.heal("s10", always)
    ledger.heal("s20", always)
    ledger.quarantine("s20", "SHA-256 differs")
    ledger.heal("s20", always)
    assert states(ledger) == {"s10": "pinned", "s20": "quarantined"}
    assert ledger.why_quarantined("s20") == "SHA-256 differs"
    assert ledger.why_quarantined("s10") == ledger.why_quarantined("nowhere") == ""


def test_one_of_a_line_that_ended_is_not_pinned(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, 10, 20)
    ledger.heal("s10", always)
    ledger.heal("s20", always)
    ledger.repin(lambda entry: entry.step <= 10)
    assert states(ledger) == {"s10": "pinned", "s20": "healthy"}


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, 10, 20)
    ledger.heal("s10", always)
    ledger.quarantine("s20", "not finite")
    ledger.write()
    later = CheckpointLedger(tmp_path)
    assert later.entries == ledger.entries
    later.add("s10", 1, 10)
    assert states(later)["s10"] == "pinned"


def test_forgetting_keeps_the_reasons(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, 10, 20, 30)
    ledger.quarantine("s20", "not finite")
    assert ledger.keep_only(["s30"]) == ["s10"]
    assert states(ledger) == {"s20": "quarantined", "s30": "new"}


def test_what_is_not_known_is_not_healed() -> None:
    assert not ledger_of(None, 10).heal("s99", always)


def test_a_file_that_is_no_ledger_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("{")
    assert CheckpointLedger(tmp_path).entries == []
