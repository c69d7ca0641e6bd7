"""A model of the learned detector: as a JSON file, as the text a job is told, or the one that is shipped."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holter.pipeline.core.detect.learned import FEATURES, LearnedModel
from holter.pipeline.core.detect.learned_model import SHIPPED
from holter.pipeline.fit.errors import BadWeightsFile

VERSION = 1
SHIPPED_NAME = "shipped"


class LearnedFile(msgspec.Struct, frozen=True):
    bias: float
    threshold: float
    weights: dict[str, float]
    version: int = VERSION


def text_of(model: LearnedModel) -> str:
    """As JSON, the weights by feature."""
    file = LearnedFile(model.bias, model.threshold, dict(zip(FEATURES, model.weights, strict=True)))
    return msgspec.json.encode(file).decode()


def model_from_text(text: str | bytes, source: str = "the model") -> LearnedModel:
    """Raises:
    BadWeightsFile: it is none, or of a version with other features.
    """
    try:
        file = msgspec.json.decode(text, type=LearnedFile)
    except msgspec.MsgspecError as error:
        raise BadWeightsFile(
            f"{source} is no learned detector ({error}): write one with `holter fit --detector`"
        ) from None
    differing = sorted(set(FEATURES) ^ file.weights.keys())
    if file.version != VERSION or differing:
        what = f"version {file.version}" if file.version != VERSION else f"it differs in {', '.join(differing)}"
        raise BadWeightsFile(f"{source} was fitted by another version ({what}): fit again with `holter fit --detector`")
    return LearnedModel(file.bias, tuple(file.weights[name] for name in FEATURES), file.threshold)


def write_model(path: Path, model: LearnedModel) -> None:
    """Raises:
    OSError: the file cannot be written.
    """
    path.write_bytes(msgspec.json.format(text_of(model).encode(), indent=2) + b"\n")


def model_named(name: str) -> LearnedModel:
    """The shipped model, or that of a file.

    Raises:
        BadWeightsFile: there is no such file, or it holds none.
    """
    if name == SHIPPED_NAME:
        return SHIPPED
    try:
        return model_from_text(Path(name).read_bytes(), name)
    except OSError as error:
        raise BadWeightsFile(f"{name}: {error.strerror or error} (`{SHIPPED_NAME}` needs no file)") from None
