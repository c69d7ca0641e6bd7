"""Which format a file is of."""

from __future__ import annotations

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.formats.build_nanogpt import BUILD_NANOGPT
from holter.pipeline.replay.formats.deepspeed import DEEPSPEED
from holter.pipeline.replay.formats.delimited import DELIMITED
from holter.pipeline.replay.formats.format import Format
from holter.pipeline.replay.formats.json_document import JSON_DOCUMENT
from holter.pipeline.replay.formats.json_lines import JSON_LINES
from holter.pipeline.replay.formats.key_value import KEY_VALUE
from holter.pipeline.replay.formats.llmc import LLMC
from holter.pipeline.replay.formats.megatron import MEGATRON
from holter.pipeline.replay.formats.mllog import MLLOG
from holter.pipeline.replay.formats.tensorboard import TENSORBOARD
from holter.pipeline.replay.formats.trainer_console import TRAINER_CONSOLE
from holter.pipeline.replay.formats.trainer_state import TRAINER_STATE
from holter.pipeline.replay.log_file import LogFile

_STRUCTURED = (TENSORBOARD, TRAINER_STATE, JSON_LINES, JSON_DOCUMENT, MLLOG, DELIMITED)
"""Told by their structure: the first that fits."""
_TEXT = (LLMC, BUILD_NANOGPT, MEGATRON, DEEPSPEED, TRAINER_CONSOLE, KEY_VALUE)
"""Told by their lines, the more particular first: of those with at least half as many as the best, the first."""

FORMATS = {format_.name: format_ for format_ in (*_STRUCTURED, *_TEXT)}


def detect(file: LogFile, names: ColumnNames) -> Format:
    """The format of a file.

    Raises:
        UnreadableLog: it is of none.
    """
    for format_ in _STRUCTURED:
        if format_.fits(file, names):
            return format_
    if b"\0" in file.head[:4096]:
        raise UnreadableLog("it is a binary file of no known format")
    num_lines = {format_.name: format_.fits(file, names) for format_ in _TEXT}
    enough = max(1.0, max(num_lines.values()) / 2)
    for format_ in _TEXT:
        if num_lines[format_.name] >= enough:
            return format_
    raise UnreadableLog("it is no log of a known format; --format NAME says which one it is (see --help)")
