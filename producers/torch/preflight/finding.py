"""What a check says: something is wrong, something is as it should be, or it cannot tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["serious", "warning", "note", "fine", "not_checked"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note", "fine", "not_checked")


@dataclass(frozen=True)
class Finding:
    """``what`` says it with its number, ``why`` what comes of it, ``fix`` what to do; the number is also ``value``.

    What is fine or could not be checked has neither ``why`` nor ``fix``.
    """

    check: str
    severity: Severity
    what: str
    value: float | None = None
    limit: float | None = None
    why: str = ""
    fix: str = ""


def fine(check: str, what: str, value: float | None = None, limit: float | None = None) -> Finding:
    return Finding(check, "fine", what, value, limit)


def not_checked(check: str, reason: str) -> Finding:
    return Finding(check, "not_checked", reason)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, otherwise in the order of the checks."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
