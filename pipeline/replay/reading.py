"""From a file to a log."""

from __future__ import annotations

from pathlib import Path

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.detection import FORMATS, detect
from holter.pipeline.replay.errors import UnreadableLog
from holter.pipeline.replay.log import Log, log_of
from holter.pipeline.replay.log_file import LogFile


def read_log(path: Path, names: ColumnNames | None = None, format_name: str | None = None) -> Log:
    """Reads a log, of the named format or of the one that is found.

    Raises:
        UnreadableLog: there is nothing to replay in it.
    """
    names = names or ColumnNames()
    try:
        file = LogFile(path)
        format_ = FORMATS[format_name] if format_name else detect(file, names)
        table = format_.read(file, names)
    except OSError as error:
        raise UnreadableLog(error.strerror or str(error)) from None
    return log_of(path, format_.name, table, names, file.notes)
