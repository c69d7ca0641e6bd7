"""``holter diagnose`` as a user runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holter.pipeline.cli.main import app


def holter_diagnose(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["diagnose", *map(str, arguments)], env={"COLUMNS": "200"})


def job(folder: Path, *last: str, num_nodes: int = 3) -> Path:
    folder.mkdir()
    for node in range(num_nodes):
        lines = [f"2026-03-01 10:00:{step:02d} INFO step {step} done in 3.{step} ms" for step in range(20)]
        (folder / f"node{node}.log").write_text("\n".join([*lines, *(last if node == 1 else ())]) + "\n")
    return folder


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    return job(tmp_path / "failed", "2026-03-01 10:01:00 ERROR OSError: [Errno 28] No space left on device: '/ckpt'")


def test_node_line_signature_and_what_to_do_are_told(failed: Path, tmp_path: Path) -> None:
    done = holter_diagnose(failed, "--good", job(tmp_path / "good"))
    assert done.exit_code == 0, done.output
    assert "1 of 1 templates" in done.output
    assert "disk-full (node1): a file system is full" in done.output
    assert "do: make room" in done.output


def test_as_json_it_is_one_object(failed: Path, tmp_path: Path) -> None:
    done = holter_diagnose(failed, "--good", job(tmp_path / "good"), "--json")
    found = json.loads(done.stdout)
    assert [each["nodes"] for each in found["symptoms"]] == [{"node1": 1}]
    assert found["symptoms"][0]["first"]["line"] == 21
    assert found["patterns"][0]["name"] == "disk-full"


def test_signatures_of_ones_own_come_first(failed: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[our-ckpt]\nmatch = 'No space'\nmeans = 'ours'\ndo = 'call us'\n")
    done = holter_diagnose(failed, "--patterns", tmp_path / "own.toml")
    assert "our-ckpt (node1): ours" in done.output


def test_an_expression_for_iterations_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "failed"
    folder.mkdir()
    lines = [f"update <{number}>\nloaded\ncomputed" for number in range(30)]
    lines[25] += "\nlink flaps\nlink flaps badly"
    (folder / "a.log").write_text("\n".join(lines))
    done = holter_diagnose(folder, "--iteration", r"update <(\d+)>")
    assert "since iteration 25 on a" in done.output
    assert "no line counts iterations" in holter_diagnose(folder).output


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "holds no files"), (b"", "it is empty"), (bytes(range(256)) * 20, "it is not text")],
)
def test_a_folder_without_logs_is_one_line_and_exit_2(tmp_path: Path, content: bytes | None, said: str) -> None:
    (tmp_path / "logs").mkdir()
    if content is not None:
        (tmp_path / "logs" / "node0.log").write_bytes(content)
    done = holter_diagnose(tmp_path / "logs")
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("module", "said"), [("drain3.drain", "needs drain3"), ("sklearn.ensemble", "needs scikit-learn")]
)
def test_a_library_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = holter_diagnose(job(tmp_path / "failed", "a line of its own", num_nodes=4))
    assert done.exit_code == 2
    assert f"{said}, which is not installed: pip install 'holter[diagnose]'" in done.output


def test_one_bad_file_among_good_ones_is_set_aside(failed: Path) -> None:
    (failed / "node2.log").write_bytes(b"")
    done = holter_diagnose(failed)
    assert done.exit_code == 0
    assert "set aside" in done.output


@pytest.mark.parametrize(
    ("option", "value"), [("--iteration", "step"), ("--iteration", "("), ("--patterns", "gone.toml")]
)
def test_what_cannot_be_used_is_refused(failed: Path, option: str, value: str) -> None:
    assert holter_diagnose(failed, option, value).exit_code == 2
