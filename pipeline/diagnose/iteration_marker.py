"""Which line of a log says that an iteration began or ended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from holter.pipeline.diagnose.log_line import mask, parse

_USUAL = re.compile(
    r"(?:\b(?:global[_ ]?)?(?:step|iteration|iter|it)(?:s|_?num|_?no)?\b['\"\]]?[\s:=#\[(/]*|^\[?)"
    r"(\d+)(?=[\s,;:|/\])}'\"]|$)",
    re.IGNORECASE,
)
_SEARCHED_LINES = 20_000
_FEWEST_STEPS = 3


class Marker:
    """Finds an iteration's number in a message. Where no expression is given, only after the same words every time."""

    def __init__(self, expression: re.Pattern[str] = _USUAL, words: str | None = None) -> None:
        self.words = words
        self._expression = expression

    def number(self, message: str) -> int | None:
        found = self._expression.search(message)
        if found is None or (self.words is not None and _words_before(found) != self.words):
            return None
        number = found[found.lastindex or 0]
        return int(number) if number.isdecimal() and len(number) < 16 else None


def find_marker(lines: Iterable[str]) -> Marker | None:
    """The words after which a number rises most often; None where none does so three times.

    >>> log = [f"10:00:0{n} INFO loading step 1000 x\\niteration {n}/ 50 | loss 2.{n}" for n in range(1, 6)]
    >>> find_marker("\\n".join(log).splitlines()).number("iteration       7/ 50 | loss 2.1")
    7
    """
    last: dict[str, int] = {}
    rises: dict[str, int] = {}
    usual = Marker()
    for line in islice(lines, _SEARCHED_LINES):
        message = parse(line).message
        found = _USUAL.search(message)
        number = usual.number(message)
        if found is None or number is None:
            continue
        words = _words_before(found)
        rises[words] = rises.get(words, 0) + (number > last.get(words, number))
        last[words] = number
    words = max(rises, key=lambda each: rises[each], default="")
    return Marker(words=words) if rises.get(words, 0) >= _FEWEST_STEPS else None


def _words_before(found: re.Match[str]) -> str:
    return " ".join(mask(found.string[: found.start(1)]).split())
