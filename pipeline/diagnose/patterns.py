"""Confirmed signatures of failures (L4's fault-pattern library): what a line means and what to do, from TOML."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holter.pipeline.diagnose.errors import BadPatterns

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SHIPPED = Path(__file__).with_name("patterns.toml")
_KEYS = ("match", "means", "do")


@dataclass(frozen=True)
class Pattern:
    name: str
    expression: re.Pattern[str]
    means: str
    do: str


def shipped_patterns() -> list[Pattern]:
    return _patterns(_SHIPPED, _SHIPPED.read_text(encoding="utf-8"))


def with_file(path: Path, shipped: Iterable[Pattern]) -> list[Pattern]:
    """Those of a file first, then the shipped ones that it does not replace.

    Raises:
        BadPatterns: it is missing, is no TOML, or a pattern lacks something.
    """
    try:
        own = _patterns(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadPatterns(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadPatterns(f"{path} is no TOML: {error}") from None
    names = {each.name for each in own}
    return own + [each for each in shipped if each.name not in names]


def pattern_of(text: str, patterns: Iterable[Pattern]) -> Pattern | None:
    """The first that fits."""
    return next((each for each in patterns if each.expression.search(text)), None)


def _patterns(path: Path, text: str) -> list[Pattern]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadPatterns(f"{path} is no TOML: {error}") from None
    return [_pattern(path, name, table) for name, table in document.items()]


def _pattern(path: Path, name: str, table: Any) -> Pattern:
    if not isinstance(table, Mapping) or not all(isinstance(table.get(key), str) for key in _KEYS):
        raise BadPatterns(f"{path}: [{name}] needs {', '.join(_KEYS)}, each a text")
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise BadPatterns(f"{path}: [{name}] has {', '.join(unknown)}; a pattern has {', '.join(_KEYS)}")
    try:
        return Pattern(name, re.compile(table["match"]), table["means"], table["do"])
    except re.error as error:
        raise BadPatterns(f"{path}: match of [{name}] is no regular expression: {error}") from None
