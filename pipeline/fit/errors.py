from __future__ import annotations


class FitError(Exception):
    """``str`` is one line for people: what is wrong, and what to do."""


class TooFewIncidents(FitError):
    """Coefficients of so few would be chance."""


class BadLabels(FitError):
    """A folder of labelled runs that cannot be used."""


class BadWeightsFile(FitError):
    """No file of coefficients, or one of another version."""
