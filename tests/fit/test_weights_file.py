from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from holter.pipeline.core.recovery import RecoveryWeights
from holter.pipeline.fit.errors import BadWeightsFile
from holter.pipeline.fit.refit import refit
from holter.pipeline.fit.weights_file import read_weights, write_weights
from tests.fit.incidents import made_incidents


def test_what_was_fitted_is_read_back_with_what_it_rests_on(tmp_path: Path) -> None:
    fitted = refit(made_incidents(RecoveryWeights(), 300), RecoveryWeights())
    path = tmp_path / "weights.json"
    write_weights(path, fitted)
    assert read_weights(path) == fitted.weights
    on = json.loads(path.read_text())["fitted_on"]
    assert (on["num_healed"], on["brier"]) == (fitted.num_healed, fitted.scores.fitted)


WEIGHTS = asdict(RecoveryWeights())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"\xff\xfe", "no file of weights"),
        (b"[]", "no file of weights"),
        (b'{"weights": {"base": "high"}}', "no file of weights"),
        (json.dumps({"weights": {"base": 1.0}}).encode(), "differs in .*given_back"),
        (json.dumps({"weights": {**WEIGHTS, "later": 1.0}}).encode(), "differs in later"),
        (json.dumps({"weights": WEIGHTS, "version": 2}).encode(), "version 2"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "weights.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadWeightsFile, match=words) as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
