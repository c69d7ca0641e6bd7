"""What a start event tells about a run: its configuration, versions and host, within the schema's bounds."""

from __future__ import annotations

import dataclasses
import functools
import platform
import socket
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from holter.schemas.bounds import MAX_INT, Scalar

_MAX_ENTRIES = 1_000
_MAX_NAME = 200
_MAX_DEPTH = 10
_LIBRARIES = ("torch", "numpy", "lightning", "transformers", "deepspeed", "accelerate")


def flat_config(config: object) -> dict[str, Scalar]:
    """A mapping, dataclass or namespace as dotted names and scalars; what is neither becomes its ``str``.

    >>> flat_config({"model": {"width": 64}, "betas": (0.9, 0.95)})
    {'model.width': 64, 'betas': '(0.9, 0.95)'}
    """
    flat: dict[str, Scalar] = {}
    for name, value in _leaves("", config, 0):
        if len(flat) == _MAX_ENTRIES:
            break
        flat[name[:_MAX_NAME]] = value
    return flat


def library_versions() -> dict[str, str]:
    """Versions of Python and of the training libraries that are loaded; imports nothing."""
    versions = {"python": platform.python_version()}
    for name in ("holter", *_LIBRARIES):
        if name == "holter" or name in sys.modules:
            versions[name] = _version(name)
    return versions


def host_name() -> str:
    return socket.gethostname()[:_MAX_NAME]


@functools.cache
def _version(name: str) -> str:
    try:
        return metadata.version(name)[:_MAX_NAME]
    except metadata.PackageNotFoundError:
        return "unknown"


def _leaves(prefix: str, value: object, depth: int) -> Iterator[tuple[str, Scalar]]:
    entries = _entries(value)
    if entries is None or depth == _MAX_DEPTH:
        yield prefix or "config", _scalar(value)
        return
    for name, child in entries.items():
        yield from _leaves(f"{prefix}.{name}" if prefix else str(name), child, depth + 1)


def _entries(value: object) -> Mapping[Any, Any] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: getattr(value, entry.name) for entry in dataclasses.fields(value)}
    if type(value).__name__ in ("Namespace", "SimpleNamespace"):
        return vars(value)
    return None


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int) and abs(value) <= MAX_INT:
        return value
    return str(value)
