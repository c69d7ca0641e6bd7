"""Names of projects and runs."""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timezone
from urllib.parse import quote

from holter.schemas import InvalidRecord, run_key

MAX_NAME_LENGTH = 100
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f]")


def checked_key(project: str, run: str) -> str:
    """The key of a run's records.

    Raises:
        ValueError: a name is empty, too long, or has a ``/`` or a control character.
    """
    for what, name in (("project", project), ("run", run)):
        if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or _CONTROL_CHARACTERS.search(name):
            raise ValueError(f"{what} {name!r} must be text of at most {MAX_NAME_LENGTH} printable characters")
    try:
        return run_key(project, run)
    except (InvalidRecord, UnicodeEncodeError) as error:
        raise ValueError(f"these names cannot be used: {error}") from None


def generated_run_name(now: datetime | None = None) -> str:
    """A name that sorts by time and is not met twice, like ``20260131-1204-9f3c``."""
    moment = now or datetime.now(timezone.utc)
    return f"{moment:%Y%m%d-%H%M}-{secrets.token_hex(2)}"


def folder_name(name: str) -> str:
    """The name of a project or run as that of one folder: never hidden, never above its parent.

    >>> folder_name("../v1.2:a")
    '%2E%2E%2Fv1%2E2%3Aa'
    """
    return quote(name, safe=" ").replace(".", "%2E")
