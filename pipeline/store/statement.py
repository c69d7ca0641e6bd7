"""ClickHouse statements as tokens: where a statement ends, where an INSERT's data begins, what it asks for.

The lexer must agree with the engine's about strings, quoted names and comments, since the guard reads its tokens.
Where the engine takes any Unicode space, every non-ASCII byte outside quotes counts as one here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from holter.pipeline.store.errors import QueryRefused

SYNTAX_ERROR = 62
TokenKind = Literal["word", "quoted", "string", "number", "mark"]

_TOKEN = re.compile(
    rb"""
    (?P<space>[\x00-\x20]+|--[^\n]*|//[^\n]*|\#[\ !][^\n]*)
    |(?P<comment>/\*)
    |(?P<word>[A-Za-z_][\w$]*)
    |(?P<number>\d\w*)
    |(?P<string>'(?:[^'\\]|\\.|'')*'|\xe2\x80\x98.*?\xe2\x80\x99|(?P<tag>\$\w*\$).*?(?P=tag))
    |(?P<quoted>`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*"|\xe2\x80\x9c.*?\xe2\x80\x9d)
    |(?P<unclosed>['"`]|\xe2\x80[\x98\x9c])
    |(?P<other>[\x80-\xff]+?)
    |(?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_COMMENT_EDGE = re.compile(rb"/\*|\*/")
_DATA_START = re.compile(rb"[ \t\f]*\r?\n?")
_SKIPPED = frozenset({"space", "other"})
_RESULT_KINDS = frozenset(
    {"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK", "KILL"}
)  # fmt: skip


@dataclass(frozen=True)
class Token:
    kind: TokenKind
    text: bytes
    start: int
    end: int

    def is_word(self, *words: bytes) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def is_mark(self, mark: bytes) -> bool:
        return self.kind == "mark" and self.text == mark

    @property
    def name(self) -> str:
        """The identifier that a word or a quoted token stands for."""
        text = self.text.decode("utf-8", "replace")
        return text[1:-1] if self.kind == "quoted" else text


@dataclass(frozen=True)
class Statement:
    """One statement. ``data`` is what follows an INSERT's FORMAT or VALUES, and then ``text`` ends before it."""

    text: bytes
    tokens: Sequence[Token]
    data: bytes | None = None
    data_format: str = ""

    @property
    def kind(self) -> str:
        """The first word in capitals, parentheses left out; empty for an empty statement."""
        for token in self.tokens:
            if not token.is_mark(b"("):
                return token.text.decode("utf-8", "replace").upper()
        return ""

    @property
    def has_result(self) -> bool:
        return self.kind in _RESULT_KINDS

    @property
    def can_stream(self) -> bool:
        """Whether the engine can give its result piece by piece."""
        return self.kind in ("SELECT", "WITH", "FROM")

    @property
    def output_format(self) -> str | None:
        """The format that a closing FORMAT clause names."""
        for at in range(len(self.tokens) - 2, -1, -1):
            if self.tokens[at].is_word(b"FORMAT") and self.tokens[at + 1].kind == "word" and self._closes(at + 2):
                return self.tokens[at + 1].name
        return None

    def _closes(self, at: int) -> bool:
        return at >= len(self.tokens) or self.tokens[at].is_mark(b";") or self.tokens[at].is_word(b"SETTINGS")


def tokens_of(text: bytes, start: int = 0) -> Iterator[Token]:
    """The tokens, without white space and comments.

    Raises:
        QueryRefused: a string, a quoted name or a comment is not closed.
    """
    position = start
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None  # the last alternatives take any byte
        kind = found.lastgroup if found.lastgroup != "tag" else "string"
        if kind == "comment":
            position = _comment_end(text, found.end())
            continue
        if kind == "unclosed":
            raise QueryRefused(f"a quote at byte {position} is not closed", SYNTAX_ERROR)
        position = found.end()
        if kind not in _SKIPPED:
            yield Token(kind, found[0], found.start(), position)  # type: ignore[arg-type]


def parse(raw: bytes) -> Statement:
    """The one statement in ``raw``, with an INSERT's data apart.

    Raises:
        QueryRefused: it cannot be read, or there are several statements.
    """
    tokens: list[Token] = []
    depth = 0
    may_have_data = True
    for token in tokens_of(raw):
        _refuse_second_statement(tokens, token)
        tokens.append(token)
        depth += token.is_mark(b"(") - token.is_mark(b")")
        if not tokens[0].is_word(b"INSERT") or not may_have_data:
            continue
        may_have_data = not token.is_word(b"SELECT", b"WITH", b"INFILE")
        data_format = _data_format(tokens) if depth == 0 else None
        if data_format is not None:
            return _with_data(raw, tokens, data_format)
    return Statement(raw, tokens)


def split_statements(script: bytes) -> list[bytes]:
    """The statements of a script, separated by ``;``, without those that hold only comments."""
    statements: list[bytes] = []
    start, is_empty = 0, True
    for token in tokens_of(script):
        if not token.is_mark(b";"):
            is_empty = False
            continue
        if not is_empty:
            statements.append(script[start : token.start].strip())
        start, is_empty = token.end, True
    if not is_empty:
        statements.append(script[start:].strip())
    return statements


def _comment_end(text: bytes, position: int) -> int:
    """Behind a comment that was opened just before ``position``; comments nest."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(text, position)
        if edge is None:
            raise QueryRefused("a comment is not closed", SYNTAX_ERROR)
        depth += 1 if edge[0] == b"/*" else -1
        position = edge.end()
    return position


def _refuse_second_statement(tokens: list[Token], token: Token) -> None:
    if tokens and tokens[-1].is_mark(b";") and not token.is_mark(b";"):
        raise QueryRefused("Multi-statements are not allowed", SYNTAX_ERROR)


def _data_format(tokens: list[Token]) -> str | None:
    """The data's format if the data begins after the last token; a table may itself be called format or values."""
    last = tokens[-1]
    if len(tokens) < 3 or last.kind != "word" or _names_table(tokens[-2]):
        return None
    if last.is_word(b"VALUES"):
        return "Values"
    before = tokens[-2]
    if before.is_word(b"FORMAT") and len(tokens) > 3 and not _names_table(tokens[-3]):
        return last.name
    return None


def _names_table(before: Token) -> bool:
    return before.is_word(b"INTO", b"TABLE") or before.is_mark(b".")


def _with_data(raw: bytes, tokens: list[Token], data_format: str) -> Statement:
    last = tokens[-1]
    if last.is_word(b"VALUES") and not tokens[-2].is_word(b"FORMAT"):
        return Statement(raw[: last.start], tokens[:-1], raw[last.end :], "Values")
    match = _DATA_START.match(raw, last.end)
    assert match is not None  # it matches the empty string
    return Statement(raw[: tokens[-2].start], tokens[:-2], raw[match.end() :], data_format)
