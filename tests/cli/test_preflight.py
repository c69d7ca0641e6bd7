"""``holter preflight`` on a file as a user writes it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli.main import app

pytestmark = pytest.mark.torch
TRAIN = """
import torch

def job():
    return torch.nn.Sequential(torch.nn.Embedding(11, 4), torch.nn.Linear(4, 11))

def half():
    model = job()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-5)

def hasty():
    model = job()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.0)
    ids = torch.arange(8).view(2, 4)
    return dict(model=model, optimizer=optimizer, batch=(ids, ids), warmup=0)

def broken():
    raise RuntimeError("no data here")

def odd():
    return 3
"""


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "train_of_a_user.py"
    path.write_text(TRAIN)
    monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return path.stem


def holter_preflight(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["preflight", *arguments])


def test_a_serious_finding_is_exit_1_and_told_with_why_and_fix(train: str) -> None:
    done = holter_preflight(f"{train}:hasty")
    assert done.exit_code == 1, done.output
    assert "serious     warm-up: the rate is at its peak of 0.01 after 0 steps; β2 = 0.95 asks for 40" in done.output
    assert "fix: warm up over 40 steps, from near zero" in done.output
    assert "not checked" in done.output


def test_a_file_may_be_named_and_json_is_one_object(train: str) -> None:
    done = holter_preflight(f"{train}.py:half", "--json", "--clip", "0.5")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    decay = next(each for each in document["findings"] if each["check"] == "weight decay on embeddings")
    assert (decay["severity"], decay["value"]) == ("warning", 0.01)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("train", "is not MODULE:FUNCTION"),
        ("nowhere_at_all:job", "nowhere_at_all cannot be imported"),
        ("train_of_a_user:absent", "has no function 'absent'"),
        ("train_of_a_user:broken", "raised RuntimeError: no data here"),
        ("train_of_a_user:odd", "returned a int, not a model"),
    ],
)
def test_what_cannot_be_examined_is_one_line_and_exit_2(train: str, target: str, said: str) -> None:
    done = holter_preflight(target)
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = holter_preflight("train:job")
    assert done.exit_code == 2
    assert "pip install 'holter[torch]'" in done.stderr
