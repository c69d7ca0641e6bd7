"""Policies as TOML files, wherever a policy is taken.

A file may say::

    preset = "expected-cost"

    [autonomy]
    rollback = "approve"

    [safety]
    cooldown_steps = 80

    [cost]
    patience_steps = 20
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from holter.pipeline.core.decide.policy import PRESETS
from holter.pipeline.core.decide.written_policy import WrittenPolicy, policy_from_tables, policy_from_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POLICY_METAVAR = "NAME|FILE.toml"
POLICY_HELP = f"{', '.join(PRESETS)}, or a file that says more"


class PolicyFileError(ValueError):
    """The file cannot be used; the message names it, the key and what would do."""


def read_policy_file(path: Path) -> WrittenPolicy:
    """Raises:
    PolicyFileError: it is missing, is no TOML, or says something that there is not.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyFileError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyFileError(f"{path} is no TOML: {error}") from None
    try:
        return policy_from_tables(document, path.stem)
    except ValueError as error:
        raise PolicyFileError(f"{path}: {error}") from None


def known_policy(given: str | None) -> str | None:
    """For an option: the policy of a name or file, on one line; refuses one that cannot be used."""
    if given is None:
        return None
    try:
        return (read_policy_file(Path(given)) if given.endswith(".toml") else policy_from_text(given)).text()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
