"""What the embedded store refuses to everyone, since its engine has no users: files, network, code, other grammars.

The engine runs with the rights of its owner. Everything that would reach outside the data folder is refused by
name, before the engine sees the statement: an allowlist of table functions and engines, against the engine's own
list of all that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holter.pipeline.store.errors import QueryRefused
from holter.pipeline.store.statement import SYNTAX_ERROR, Statement, Token, tokens_of

ACCESS_DENIED = 497
SETTING_CONSTRAINT_VIOLATION = 452

_TABLE_FUNCTIONS = frozenset(
    {
        "dictionary", "generaterandom", "generate_series", "generateseries", "loop", "merge", "null", "numbers",
        "numbers_mt", "primes", "values", "view", "viewifpermitted", "zeros", "zeros_mt",
    }
)  # fmt: skip
_ENGINES = frozenset(
    {
        "aggregatingmergetree", "atomic", "buffer", "coalescingmergetree", "collapsingmergetree", "generaterandom",
        "graphitemergetree", "join", "log", "materializedview", "memory", "merge", "mergetree", "null",
        "replacingmergetree", "set", "stripelog", "summingmergetree", "tinylog", "versionedcollapsingmergetree",
        "view",
    }
)  # fmt: skip
_KINDS = frozenset(
    {
        "", "ALTER", "CHECK", "CREATE", "DELETE", "DESC", "DESCRIBE", "DROP", "EXCHANGE", "EXISTS", "EXPLAIN", "FROM",
        "INSERT", "KILL", "OPTIMIZE", "RENAME", "REPLACE", "SELECT", "SET", "SHOW", "TRUNCATE", "UNDROP", "UPDATE",
        "USE", "WITH",
    }
)  # fmt: skip
_KINDS_OF_SERVERS = frozenset(
    {"ATTACH", "BACKUP", "COPY", "DETACH", "EXECUTE", "GRANT", "IMPORT", "MOVE", "RESTORE", "REVOKE", "SYSTEM", "WATCH"}
)  # fmt: skip
_CREATED = frozenset({b"DICTIONARY", b"NAMED", b"USER", b"ROLE", b"QUOTA", b"PROFILE", b"WORKLOAD", b"RESOURCE"})
# These can be passed by name (`arrayMap(file, …)`, `APPLY file`), so the bare name is enough.
_NAMES = frozenset({"file", "python", "executable"})
_AI_PREFIX = "ai"
# Paths, other grammars than the lexer's, and expressions hidden in strings.
_SETTING_PREFIXES = ("additional_", "format_schema", "format_template_", "schema_inference_hints", "parallel_replicas")
_SETTINGS = frozenset({"dialect", "allow_experimental_eval_table_function"})


@dataclass(frozen=True)
class Guard:
    """Refuses statements and settings.

    ``table_functions`` are all names that the engine has, in lower case, ``functions`` its AI functions;
    ``ceilings`` are the greatest values of settings that limit a query.
    """

    table_functions: frozenset[str]
    ceilings: Mapping[str, int]
    functions: frozenset[str] = frozenset()

    def check(self, statement: Statement) -> None:
        """Raises:
        QueryRefused: the statement is forbidden here.
        """
        if statement.kind in _KINDS_OF_SERVERS:
            raise _denied(statement.kind)
        if statement.kind not in _KINDS:
            raise QueryRefused(f"Syntax error: {statement.kind[:100]} begins no statement known here", SYNTAX_ERROR)
        self._check_tokens(statement.tokens, statement.kind)
        if statement.data is not None and statement.data_format.lower() == "values":
            self._check_tokens(list(tokens_of(statement.data)), statement.kind)

    def check_settings(self, settings: Mapping[str, str]) -> None:
        """Raises:
        QueryRefused: a setting is forbidden or beyond its ceiling.
        """
        for name, value in settings.items():
            self._check_setting(name.lower(), value)

    def _check_tokens(self, tokens: Sequence[Token], kind: str) -> None:
        for at, token in enumerate(tokens):
            following = tokens[at + 1 : at + 4]
            if token.kind == "word":
                _check_word(token, following, kind)
            if token.kind in ("word", "quoted"):
                self._check_name(token, following)

    def _check_name(self, token: Token, following: Sequence[Token]) -> None:
        name = token.name.lower()
        if token.kind == "quoted" and "\\" in name:
            raise QueryRefused(f"{token.name!r}: names with a backslash are not taken here", ACCESS_DENIED)
        if name in _NAMES or name in self.functions:
            raise _denied(token.name)
        if not following:
            return
        if following[0].is_mark(b"(") and (name == "disk" or self._is_outside(name)):
            raise _denied(f"{token.name}()")
        if following[0].is_mark(b"=") and len(following) > 1:
            self._check_setting(name, _first_value(following[1:]))

    def _is_outside(self, name: str) -> bool:
        return name in self.table_functions and name not in _TABLE_FUNCTIONS

    def _check_setting(self, name: str, value: str) -> None:
        if name in _SETTINGS or name.startswith(_SETTING_PREFIXES):
            raise _denied(f"the setting {name}")
        ceiling = self.ceilings.get(name)
        if ceiling is None:
            return
        if not value.isdecimal() or not 0 < int(value) <= ceiling:
            raise QueryRefused(f"{name} must be from 1 to {ceiling} here, not {value}", SETTING_CONSTRAINT_VIOLATION)


def ai_functions(names: Iterable[str]) -> frozenset[str]:
    """Of all functions of the engine, those that call a model over the network, in lower case.

    >>> sorted(ai_functions(["aiGenerate", "AIEmbed", "airport", "abs"]))
    ['aiembed', 'aigenerate']
    """
    return frozenset(name.lower() for name in names if name[:2].lower() == _AI_PREFIX and name[2:3].isupper())


def _check_word(token: Token, following: Sequence[Token], kind: str) -> None:
    word = token.text.upper()
    if word in (b"OUTFILE", b"INFILE"):
        raise _denied(f"{word.decode()}")
    if kind in ("CREATE", "REPLACE"):
        if word in _CREATED and following and following[0].kind != "mark":
            raise _denied(f"{kind} {word.decode()}")
        if word == b"ENGINE":
            _check_engine(following)


def _first_value(tokens: Sequence[Token]) -> str:
    """The literal after an ``=``, with what is behind a decimal point, so that 1.5e9 is not read as 1."""
    text = tokens[0].text.strip(b"'")
    if tokens[0].kind == "number" and len(tokens) > 1 and tokens[1].is_mark(b"."):
        text += b"."
    return text.decode("utf-8", "replace")


def _check_engine(following: Sequence[Token]) -> None:
    names = [token for token in following[:2] if not token.is_mark(b"=")]
    if names and names[0].kind in ("word", "quoted") and names[0].name.lower() not in _ENGINES:
        raise _denied(f"ENGINE = {names[0].name}")


def _denied(what: str) -> QueryRefused:
    return QueryRefused(
        f"{what} is not allowed in the embedded store: it reaches outside its data folder or needs a server",
        ACCESS_DENIED,
    )
