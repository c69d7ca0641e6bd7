"""``trainer_state.json`` of the Hugging Face Trainer: the entries of ``log_history``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.formats.json_lines import add_object
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table

_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_GAP = re.compile(r"[\s,]*")


def fits(file: LogFile, names: ColumnNames) -> int:
    head = file.head_text
    return int(head.lstrip().startswith("{") and _HISTORY.search(head) is not None)


def read(file: LogFile, names: ColumnNames) -> Table:
    text = file.text()
    table = Table()
    for entry in _entries(text, file):
        if isinstance(entry, dict):
            add_object(table, entry, names)
        else:
            table.set_aside["an entry that is no object"] += 1
    return table.finish()


def _entries(text: str, file: LogFile) -> Iterator[Any]:
    """The entries one by one, so that a file that ends in the middle gives those before."""
    found = _HISTORY.search(text)
    decode = json.JSONDecoder().raw_decode
    at = found.end() if found else len(text)
    while True:
        at = _end_of_gap(text, at)
        if text[at : at + 1] == "]":
            return
        try:
            entry, at = decode(text, at)
        except (ValueError, RecursionError):
            file.note("its log_history is cut short: the entries before were used")
            return
        yield entry


def _end_of_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


TRAINER_STATE = Format("trainer-state", "trainer_state.json of the Hugging Face Trainer", fits, read)
