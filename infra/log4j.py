"""Logging of the Java programs: all goes to standard output, which the stack keeps in one file a component."""

from __future__ import annotations

from collections.abc import Mapping


def console_logging(root_level: str, levels: Mapping[str, str] | None = None) -> str:
    """Properties for Log4j 2; ``levels`` are those of single loggers."""
    lines = [
        f"rootLogger.level = {root_level}",
        "rootLogger.appenderRef.console.ref = console",
        "appender.console.type = Console",
        "appender.console.name = console",
        "appender.console.layout.type = PatternLayout",
        "appender.console.layout.pattern = %d{ISO8601} %-5p %c{1.} %m%n",
    ]
    for number, (logger, level) in enumerate((levels or {}).items()):
        lines += [f"logger.l{number}.name = {logger}", f"logger.l{number}.level = {level}"]
    return "\n".join([*lines, ""])
