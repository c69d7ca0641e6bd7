"""What a reader is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holter.pipeline.replay.columns import ColumnNames
from holter.pipeline.replay.log_file import LogFile
from holter.pipeline.replay.table import Table


@dataclass(frozen=True)
class Format:
    """
    Attributes:
        name: as ``--format`` takes it.
        title: what it is, for the list of formats.
        fits: how many lines of the head speak for it, 0 where it is none; by that the readers of plain text compete.
        read: the whole file. Raises UnreadableLog where it holds nothing, and nothing else whatever the file holds.
    """

    name: str
    title: str
    fits: Callable[[LogFile, ColumnNames], int]
    read: Callable[[LogFile, ColumnNames], Table]
