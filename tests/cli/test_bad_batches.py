"""What a person is shown of the data that did harm."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from holter.pipeline.cli.main import app
from holter.producers.bad_batches import BAD_BATCHES_FILE, BadBatches, BadBatchesFile

BAD = BadBatches(
    7, 12, 56, 103, 7168, 13311, ["doc-1", 2, 3, 4], 8, 13, "action-1", "the loss rose first", 1_700_000_000_000
)


def run(root: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bad-batches", *arguments, "--checkpoints", str(root)], env={"COLUMNS": "1000"})
    return result.exit_code, result.output


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder, ranges in (("night", [BAD]), ("night/rank-00001", [BadBatches(7, 12)]), ("quiet", [])):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / BAD_BATCHES_FILE).write_bytes(msgspec.json.encode(BadBatchesFile(ranges)))
        (tmp_path / folder / "attempts.json").write_text("{}")
    return tmp_path


def test_every_rank_has_its_ranges(root: Path) -> None:
    code, output = run(root, "gpt-small/night")
    assert code == 0
    for text in (
        "7 to 12",
        "56 to 103",
        "7,168 to 13,311",
        "8 to 13",
        "2023-11-14 22:13",
        "ids doc-1, 2, 3 and 1 more",
    ):
        assert text in output
    assert output.count("7 to 12") == 2


def test_as_json_with_all_ids(root: Path) -> None:
    code, output = run(root, "night", "--json")
    found = json.loads(output)
    assert code == 0
    assert [each["rank"] for each in found["bad_batches"]] == [0, 1]
    assert found["bad_batches"][0]["sample_ids"] == ["doc-1", 2, 3, 4]


def test_none_is_said(root: Path) -> None:
    assert run(root, "quiet") == (0, "quiet: no data was found to do harm.\n")


@pytest.mark.parametrize("damage", [False, True])
def test_what_cannot_be_read_is_wrong_usage(root: Path, damage: bool) -> None:
    if damage:
        (root / "night" / BAD_BATCHES_FILE).write_text("{")
    code, output = run(root, "night" if damage else "day")
    assert code == 2
    assert ("cannot be read" in output) == damage
    assert "night, quiet" in output
