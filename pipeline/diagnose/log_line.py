"""A line without what differs from line to line: its header is taken off, and values in it are masked."""

from __future__ import annotations

import re
from typing import NamedTuple

WILDCARD = "<*>"
"""Drain's own, so that a masked value does not count as something that two lines have in common."""

_LEVEL = r"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRITICAL|FATAL"
_HEADER = re.compile(
    rf"""\s*(?:
    \[?\d{{4}}[-/]\d\d[-/]\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\s?UTC|[+-]\d\d:?\d\d)?\]?
  | [A-Z][a-z]{{2}}\s+\d{{1,2}}\s\d\d:\d\d:\d\d\s+[\w.-]+(?=\s)                    # syslog, with its host
  | \[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?
  | (?P<glog>[IWEF])\d{{4}}\s\d\d:\d\d:\d\d\.\d+\s+\d+\s[\w.-]+:\d+\]
  | \[\s*\d+\.\d{{3,6}}\]                                                           # dmesg
  | [\w.-]+:\d+:\d+\s\[\d+\]                                                        # NCCL: host:pid:thread [device]
  | \[(?:rank|default|worker|node|pid)[\s_=:-]*\d+\]:? | (?:rank|node|worker)[\s_-]?\d+:
  | \((?:\w+\s)?pid=\d+(?:,\s*ip=[\d.]+)?\)
  | \[(?P<boxed>{_LEVEL})\] | (?P<level>{_LEVEL})(?=[\s:|])
  | [|:-](?=\s)
    )[\s:]*""",
    re.VERBOSE,
)
_VALUE = re.compile(
    r"""(?=[\d/+\-a-fA-FsX])(?:                        # how any of them begins: most characters are passed by at once
    (?P<code>\b(?:errno|error|code|exitcode|status|signal|Xid)\b[^\w\n]{0,3}(?:\([\w:.]+\)[:,]\ )?-?\d{1,3}\b)
  | 0x[0-9a-fA-F]+
  | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
  | \b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b | \b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b
  | (?<![\w.<])/(?:[\w.@+=-]+/)+[\w.@+=-]*
  | \b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b
  | (?:(?<![\w)\]])[-+])?\d+(?:\.\d+)*(?:[eE][-+]?\d+)?
    )""",
    re.VERBOSE,
)
_GLOG = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
_SHORT = {"WARN": "WARNING", "ERR": "ERROR", "FATAL": "CRITICAL", "TRACE": "DEBUG", "NOTICE": "INFO"}


class LogLine(NamedTuple):
    level: str
    """"" where the line names none."""
    message: str


def parse(text: str) -> LogLine:
    """Takes timestamps, host, rank, process and level off the front.

    >>> parse("[2026-03-01 10:00:00,123] [rank3]: ERROR: store timed out")
    LogLine(level='ERROR', message='store timed out')
    >>> parse("E0301 10:00:00.123456 991 watchdog.cpp:616] no progress")
    LogLine(level='ERROR', message='no progress')
    """
    level, at = "", 0
    while (found := _HEADER.match(text, at)) and found.end() > at:
        at = found.end()
        named = found["level"] or found["boxed"] or _GLOG.get(found["glog"] or "", "")
        level = level or _SHORT.get(named, named)
    return LogLine(level, text[at:].strip())


def mask(message: str) -> str:
    """Numbers, addresses, paths and hashes become wildcards; a short code after the word for one is kept.

    >>> mask("iteration 12/500 took 3.1e-2 s, saved /ckpt/run/12.pt")
    'iteration <*>/<*> took <*> s, saved <*>'
    >>> mask("NVRM: Xid (PCI:0000:3b:00): 79, pid=4242")
    'NVRM: Xid (PCI:0000:3b:00): 79, pid=<*>'
    >>> mask("worker 7 exited with exitcode: -9 at 0x7f00")
    'worker <*> exited with exitcode: -9 at <*>'
    """
    return _VALUE.sub(_masked, message)


def _masked(found: re.Match[str]) -> str:
    return found["code"] or WILDCARD
