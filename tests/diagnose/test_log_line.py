"""What is taken off a line, and what is masked in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.diagnose.log_line import LogLine, mask, parse

HEADED = [
    ("2026-03-01T10:00:00.123Z [rank3]: ERROR store timed out", "ERROR"),
    ("[2026-03-01 10:00:00,123] [WARNING] store timed out", "WARNING"),
    ("Mar  1 10:00:00 node-07 store timed out", ""),
    ("I0301 10:00:00.123456 4007 store.cc:12] store timed out", "INFO"),
    ("(RayTrainWorker pid=4242, ip=10.0.0.7) store timed out", ""),
    ("node-07:1234:5678 [3] store timed out", ""),
    ("[ 1234.567890] store timed out", ""),
    ("10:00:00 | FATAL | store timed out", "CRITICAL"),
    ("[default0]:WARN: store timed out", "WARNING"),
]


@pytest.mark.parametrize(("text", "level"), HEADED)
def test_a_header_is_taken_off(text: str, level: str) -> None:
    assert parse(text) == LogLine(level, "store timed out")


def test_a_level_in_the_middle_of_a_sentence_is_no_header() -> None:
    assert parse("state ERROR was reached") == LogLine("", "state ERROR was reached")


@pytest.mark.parametrize("value", ["12", "-1.5e-3", "0x7f00", "10.0.0.7:29500", "/mnt/ckpt/7.pt", "9f8e7d6c5b4a"])
def test_a_value_that_differs_makes_no_other_message(value: str) -> None:
    assert mask(f"read {value} again") == "read <*> again"


def test_a_code_is_part_of_the_message() -> None:
    assert mask("worker 3: exitcode: -9") != mask("worker 3: exitcode: -11")
    assert mask("Xid (PCI:0000:3b:00): 79, x") != mask("Xid (PCI:0000:3b:00): 13, x")


@given(st.text(alphabet="step 0123456789abcdefx/.:+-[]<*>()"))
def test_masking_again_changes_nothing(text: str) -> None:
    assert mask(mask(text)) == mask(text)
