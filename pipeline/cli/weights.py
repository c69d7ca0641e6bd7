"""Options that name fitted coefficients."""

from __future__ import annotations

from pathlib import Path

import typer

from holter.pipeline.core.detect.learned import LearnedModel
from holter.pipeline.core.recovery import RecoveryWeights
from holter.pipeline.fit.errors import BadWeightsFile
from holter.pipeline.fit.learned_file import model_named
from holter.pipeline.fit.weights_file import read_weights


def known_weights(path: Path | None, hint: str) -> RecoveryWeights:
    """Those of a file, or the shipped ones; ``hint`` is the option that named it.

    Raises:
        typer.BadParameter: the file holds none.
    """
    try:
        return read_weights(path) if path else RecoveryWeights()
    except BadWeightsFile as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def known_model(name: str | None) -> LearnedModel | None:
    """The learned detector of a file or the shipped one; None where none is asked for.

    Raises:
        typer.BadParameter: the file holds none.
    """
    try:
        return model_named(name) if name else None
    except BadWeightsFile as error:
        raise typer.BadParameter(str(error), param_hint="--learned") from None
