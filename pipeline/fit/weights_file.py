"""Coefficients of P(recover) as a JSON file, with what they rest on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import msgspec

from holter.pipeline.core.recovery import RecoveryWeights
from holter.pipeline.fit.design import TERMS
from holter.pipeline.fit.errors import BadWeightsFile
from holter.pipeline.fit.refit import Refit

VERSION = 1


class FittedOn(msgspec.Struct, frozen=True):
    """Brier scores: of the fit, of the fit on groups left out, of the base rate."""

    num_healed: int
    num_lost: int
    brier: float
    brier_base_rate: float
    brier_cross_validated: float | None = None


class WeightsFile(msgspec.Struct, frozen=True):
    weights: dict[str, float]
    fitted_on: FittedOn | None = None
    version: int = VERSION


def write_weights(path: Path, refit: Refit) -> None:
    """Raises:
    OSError: the file cannot be written.
    """
    scores = refit.scores
    fitted_on = FittedOn(
        refit.num_healed, refit.num_lost, scores.fitted, scores.base_rate, scores.fitted_cross_validated
    )  # fmt: skip
    content = msgspec.json.encode(WeightsFile(asdict(refit.weights), fitted_on))
    path.write_bytes(msgspec.json.format(content, indent=2) + b"\n")


def read_weights(path: Path) -> RecoveryWeights:
    """Raises:
    BadWeightsFile: it is not there, no file of weights, or of a version with other terms.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=WeightsFile)
    except OSError as error:
        raise BadWeightsFile(f"{path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise BadWeightsFile(f"{path} is no file of weights ({error}): write one with `holter fit --out`") from None
    differing = sorted(set(TERMS) ^ file.weights.keys())
    if file.version != VERSION or differing:
        what = f"version {file.version}" if file.version != VERSION else f"it differs in {', '.join(differing)}"
        raise BadWeightsFile(f"{path} was fitted by another version ({what}): fit again with `holter fit`")
    return RecoveryWeights(**file.weights)
