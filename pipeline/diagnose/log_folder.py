"""Which files of a folder are the log of which node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from holter.pipeline.diagnose.errors import UnusableLogs

_NAME = re.compile(r"(?P<node>.+?)(?:\.(?:log|txt|out|err)(?:\.(?P<rotation>\d+))?)?(?:\.gz)?")


@dataclass(frozen=True)
class NodeLog:
    """All that a node wrote, oldest file first."""

    node: str
    paths: tuple[Path, ...]

    @property
    def num_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


def node_logs(folder: Path) -> list[NodeLog]:
    """By name. What lies directly in the folder is a node: a file, its rotated ones with it, or a folder of files.

    Raises:
        UnusableLogs: it is no folder, cannot be read, or holds no files.
    """
    if not folder.is_dir():
        what = "is a file: name the folder that it lies in" if folder.exists() else "is not there"
        raise UnusableLogs(f"{folder} {what}")
    by_node: dict[str, list[Path]] = {}
    for path in sorted(_files(folder)):
        first = path.relative_to(folder).parts[0]
        by_node.setdefault(_node_of(first) if path.parent == folder else first, []).append(path)
    if not by_node:
        raise UnusableLogs(f"{folder} holds no files: it should hold a log or a folder of logs for each node")
    return [NodeLog(node, tuple(sorted(paths, key=_age))) for node, paths in sorted(by_node.items())]


def _files(folder: Path) -> list[Path]:
    try:
        found = [path for path in folder.rglob("*") if path.is_file()]
    except OSError as error:
        raise UnusableLogs(f"{folder} cannot be read: {error.strerror}") from None
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def _node_of(name: str) -> str:
    """
    >>> [_node_of(name) for name in ("node-07.log.gz", "node-07.log.2", "10.0.0.7", "worker3.out")]
    ['node-07', 'node-07', '10.0.0.7', 'worker3']
    """
    found = _NAME.fullmatch(name)
    return found["node"] if found else name


def _age(path: Path) -> tuple[Path, int, str]:
    """``a.log.2`` is older than ``a.log.1``, and that than ``a.log``."""
    found = _NAME.fullmatch(path.name)
    return path.parent, -int(found["rotation"] or 0) if found else 0, path.name
