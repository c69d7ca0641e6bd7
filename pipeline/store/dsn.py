"""Where the store is: ``clickhouse://user:password@host:port/database?secure=true``."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from holter.pipeline.store.errors import InvalidDsn

DSN_VARIABLE = "HOLTER_STORE_DSN"
EXAMPLE = "clickhouse://user:password@host:8123/holter"
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_SCHEMES = frozenset({"clickhouse", "clickhouses", "http", "https"})


@dataclass(frozen=True)
class Dsn:
    """A parsed DSN; ``str`` and ``repr`` hide the password, ``url`` does not."""

    host: str
    port: int
    user: str = "default"
    password: str = field(default="", repr=False)
    database: str = "holter"
    secure: bool = False

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS

    @property
    def url(self) -> str:
        return self._url(quote(self.password, safe=""))

    def __str__(self) -> str:
        return self._url("***")

    def _url(self, password: str) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        end = "?secure=true" if self.secure else ""
        return f"clickhouse://{quote(self.user, safe='')}:{password}@{host}:{self.port}/{self.database}{end}"


def parse_dsn(text: str) -> Dsn:
    """Raises:
    InvalidDsn: it is no DSN; the message never repeats it, since it holds a password.

    >>> str(parse_dsn("clickhouse://me:secret@localhost:8123/holter"))
    'clickhouse://me:***@localhost:8123/holter'
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise InvalidDsn(f"the store's DSN has no valid host and port; it looks like {EXAMPLE}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise InvalidDsn(f"the store's DSN must look like {EXAMPLE}")
    options = dict(parse_qsl(parts.query))
    unknown = set(options) - {"secure"}
    if unknown:
        raise InvalidDsn(f"the store's DSN has unknown options: {', '.join(sorted(unknown))}; known: secure")
    secure = options.get("secure", "").lower() in ("1", "true", "yes") or parts.scheme in ("https", "clickhouses")
    return Dsn(
        host=parts.hostname,
        port=port or (8443 if secure else 8123),
        user=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        database=parts.path.strip("/") or "holter",
        secure=secure,
    )
